# SPDX-License-Identifier: Apache-2.0
"""The use cases of the scheduler: one method for each call that arrives."""

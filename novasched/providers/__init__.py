# SPDX-License-Identifier: Apache-2.0
"""Resource providers as columns, and the allocation candidates that they give."""

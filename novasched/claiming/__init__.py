# SPDX-License-Identifier: Apache-2.0
"""Claims of a request: made, verified, and rolled back."""

# SPDX-License-Identifier: Apache-2.0
"""Tables of nova that only conductors, computes and the API use, and their creation."""

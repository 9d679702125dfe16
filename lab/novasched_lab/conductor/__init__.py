# SPDX-License-Identifier: Apache-2.0
"""The conductor: has new instances placed and built, and old ones moved."""

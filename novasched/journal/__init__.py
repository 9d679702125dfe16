# SPDX-License-Identifier: Apache-2.0
"""The journal of claims: claims under way, and claims of killed workers."""

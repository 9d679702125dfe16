# SPDX-License-Identifier: Apache-2.0
"""The journal of claims: those that are under way, and those of killed workers."""

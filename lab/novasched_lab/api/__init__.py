# SPDX-License-Identifier: Apache-2.0
"""Servers booted, moved and deleted as nova's API does it, for scheduling alone."""

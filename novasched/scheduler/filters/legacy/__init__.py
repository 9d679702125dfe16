# SPDX-License-Identifier: Apache-2.0
"""Filters that nova 34 lacks: those of older releases, and vendor filters."""

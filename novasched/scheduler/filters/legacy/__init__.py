# SPDX-License-Identifier: Apache-2.0
"""Filters that nova 34 lacks: filters of older releases, and vendor filters."""

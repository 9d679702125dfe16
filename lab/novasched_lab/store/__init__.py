# SPDX-License-Identifier: Apache-2.0
"""Rows of instances, of their requests and moves, in the databases of nova."""

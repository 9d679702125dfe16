# SPDX-License-Identifier: Apache-2.0
"""Readers of placement's providers: its database, its API, a file of the machine."""

# SPDX-License-Identifier: Apache-2.0
"""Histories: what a scheduler was asked and what it knew, recorded to be read later."""

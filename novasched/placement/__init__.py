# SPDX-License-Identifier: Apache-2.0
"""Placement over HTTP: allocation candidates, claims, rollback and recovery."""

# SPDX-License-Identifier: Apache-2.0
"""Simulated compute hosts: claims, builds, moves and heartbeats, in one process."""

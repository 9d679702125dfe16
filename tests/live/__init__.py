# SPDX-License-Identifier: Apache-2.0
"""Tests of the daemon against real servers and the peer's own RPC client."""

# SPDX-License-Identifier: Apache-2.0
"""Levels of trust of nodes, by an attestation server."""

# SPDX-License-Identifier: Apache-2.0
"""Levels of trust of nodes, as an attestation server tells them."""

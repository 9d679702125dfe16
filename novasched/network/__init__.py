# SPDX-License-Identifier: Apache-2.0
"""Neutron, the network service, over HTTP; nothing is asked unless a request must."""

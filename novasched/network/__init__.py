# SPDX-License-Identifier: Apache-2.0
"""Neutron, the network service, over HTTP; asked only if a request needs it."""

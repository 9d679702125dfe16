# SPDX-License-Identifier: Apache-2.0
"""Adapters to other services of the cloud: Neutron, attestation, memcached."""

# SPDX-License-Identifier: Apache-2.0
"""Ports whose other end is in a smart network card."""

from __future__ import annotations

import os_traits  # type: ignore[import-untyped]

from novasched.objects.request_spec import RequestSpec
from novasched.resources.prefilters import traits
from novasched.resources.prefilters.requirements import Facts, Requirements


def remote_managed_ports_filter(
    request: RequestSpec, facts: Facts
) -> Requirements | None:
    """Ask for computes that can plug remote-managed ports, if there is one.

    Raises what asking for the ports raises.
    """
    if not any(network.port_id for network in request.requested_networks):
        return None
    if not any(port.vnic_type == 'remote-managed' for port in facts.ports().values()):
        return None
    return traits.required(
        'remote_managed_ports_filter',
        [os_traits.COMPUTE_REMOTE_MANAGED_PORTS],
        'request filter added trait',
    )

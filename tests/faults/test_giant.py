# SPDX-License-Identifier: Apache-2.0
"""Requests that are far larger than any that is meant."""

from __future__ import annotations

import pytest

from tests.faults import proxy
from tests.faults.audit import Bounds
from tests.functional.conftest import Host
from tests.support.tables.examples import scaled

ALL = ('I1', 'I2', 'I3', 'I4', 'I6', 'I7', 'I8')
SERVERS, SPECS, HINT_BYTES = scaled(1000), scaled(10_000), scaled(5_000_000)
PATIENCE_S = 4
"""A caller that hears nothing for so long gives up."""
CLAIM_S = 1.5 * PATIENCE_S
LATENCY_S = 180
GROWTH_MB = 400

HOSTS = [
    Host(f'h{n}', vcpus=256, memory_mb=600_000 + n, disk_gb=2000) for n in range(5)
]


@pytest.mark.scenario('F28', 'I2', 'I4', 'I6', 'I7')
def test_giant_requests_are_served_while_their_caller_hears_of_them(
    cloud, url, daemons, callers, audit
):
    general = {
        'transport_url': url,
        'rpc_response_timeout': PATIENCE_S,
        'long_rpc_timeout': LATENCY_S,
    }
    made = cloud(HOSTS, DEFAULT=general)
    processes, clients = daemons(made), callers(made)
    daemon = processes.start(timeout_s=LATENCY_S)
    clients.boot(room=True)
    clients.wait()
    audit.bounds = Bounds(latency_s=LATENCY_S, threads=20, memory_mb=GROWTH_MB)
    audit.watch('worker', processes.workers(daemon)[0])
    made.proxy.on('POST', '^/allocations$', proxy.delay(CLAIM_S))
    many = clients.boot(SERVERS, room=True)
    clients.wait(LATENCY_S)
    assert len(many.nodes) == SERVERS, (many.failure, daemon.log[-2000:])
    # What is not of placement's business is looked at by ComputeCapabilitiesFilter.
    specs = clients.boot(
        extra_specs={f'hw:unheard_of_{n}': 'y' * 20 for n in range(SPECS)}
    )
    clients.boot(scheduler_hints={'note': ['y' * HINT_BYTES]}, room=True)
    clients.wait(LATENCY_S)
    assert specs.answers
    clients.boot(room=True)
    clients.wait(LATENCY_S)
    audit.check(*ALL)

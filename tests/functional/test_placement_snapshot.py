# SPDX-License-Identifier: Apache-2.0
"""Snapshots of the real placement: hosts that are full, and hosts that it lacks."""

from __future__ import annotations

from novasched.clock import SYSTEM_CLOCK
from novasched.placement.snapshot import ApiSource, NodeSize
from novasched.providers.diagnosis import diagnose
from novasched.resources.query import Group, Query
from tests.functional.conftest import Host, named_uuid, new_uuids
from tests.functional.test_mirror import claim

ASKED = Query((Group(resources={'VCPU': 1, 'MEMORY_MB': 512}),))


def claim_all(made, host, memory_mb):
    """Claim memory as another client of placement does."""
    body = {
        'allocations': {made.hosts[host].uuid: {'resources': {'MEMORY_MB': memory_mb}}},
        'project_id': 'p',
        'user_id': 'u',
        'consumer_generation': None,
    }
    url = f'/allocations/{new_uuids()[0]}'
    assert made.adapter.put(url, json=body, microversion='1.28').status_code == 204


def read(made, *full, lacks=()):
    """Read a snapshot; ``full`` hosts say that they have no memory left."""
    sizes = {
        host.uuid: NodeSize(8, 8192, 100, host.name not in full)
        for host in made.hosts.values()
    }
    sizes |= {named_uuid(name): NodeSize(8, 8192, 100, True) for name in lacks}
    made.faults.seen.clear()
    return ApiSource(made.adapter, SYSTEM_CLOCK).read(sizes, ())


def reasons(made, snapshot):
    names = {host.uuid: host.name for host in made.hosts.values()}
    said = diagnose(ASKED, snapshot.table, names)
    assert said['hosts'] == len(made.hosts)
    return [
        (each['code'], each['what'], each['example'], each['largest'])
        for each in said['reasons']
    ]


def test_a_host_without_memory_is_exhausted(cloud):
    made = cloud([Host('h1'), Host('h2')])
    claim_all(made, 'h1', 8192)
    claim(made, 'h2', *new_uuids(), 8)
    snapshot = read(made, 'h1')
    assert snapshot.missing == 0
    assert reasons(made, snapshot) == [
        ('exhausted', 'VCPU', 'h2', 0),
        ('exhausted', 'MEMORY_MB', 'h1', 0),
    ]


def test_one_query_will_do_where_all_hosts_have_memory(cloud):
    made = cloud([Host('h1'), Host('h2')])
    snapshot = read(made)
    assert len(snapshot.table) == 2
    # Classes, traits, all trees, and providers that share.
    assert made.faults.seen == {'GET': 4}


def test_hosts_that_placement_lacks_are_counted(cloud):
    made = cloud([Host('h1')])
    assert read(made, lacks=['h8', 'h9']).missing == 2
    claim_all(made, 'h1', 8192)
    assert read(made).missing == 1

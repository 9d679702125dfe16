# SPDX-License-Identifier: Apache-2.0
"""Dry runs choose what real requests then get, and leave nothing behind."""

import random

import pytest
import sqlalchemy as sa

from novasched import errors
from novasched.db import tables
from novasched.inspection.session import dry_run
from novasched.inspection.session.dry_run import DryPlacement
from novasched.objects.context import RequestContext
from novasched.placement.client import PlacementClient
from novasched.ports import Candidates, Claimed, ClaimRequest
from tests.functional.commands import sources
from tests.functional.conftest import Host, new_uuids
from tests.support.clouds import factories
from tests.support.tables.cases import cases

QUERY = 'resources=MEMORY_MB%3A512%2CVCPU%3A2'
HOSTS = [
    Host(
        f'h{number}',
        cell=f'cell{1 + number % 2}',
        vcpus=8 + number,
        memory_mb=8192 + 512 * number,
        numa_topology=factories.numa_topology(
            factories.numa_cell(0, range(4), pinned=range(number % 3)),
            factories.numa_cell(1, range(4, 8)),
        ),
    )
    for number in range(5)
]
FILTERS = ['ComputeFilter', 'NUMATopologyFilter', 'ServerGroupAntiAffinityFilter']


@pytest.fixture
def made(cloud):
    """Make a cloud with these filters."""

    def make():
        filters = {'enabled_filters': FILTERS}
        return cloud(HOSTS, filter_scheduler=filters)

    return make


def pinned():
    cell = factories.guest_cell(cpus=range(2), policy='dedicated')
    return {'numa_topology': factories.guest_topology(cell), 'vcpus': 2}


def requests_of(rng, number):
    """Requests of several kinds: how many servers, and what is asked for."""
    kinds = [
        {'vcpus': 1, 'memory_mb': 512, 'root_gb': 1},
        {'vcpus': 3, 'memory_mb': 2048, 'root_gb': 10},
        {**pinned(), 'memory_mb': 1024, 'root_gb': 1},
    ]
    return [(rng.randint(1, 4), rng.choice(kinds)) for _ in range(number)]


def answers(asked, ask):
    """Ask in turn; return the hosts of each request, None where there is none."""
    found = []
    for count, values in asked:
        try:
            found.append(ask(new_uuids(count), values))
        except errors.NoValidHost:
            found.append(None)
    return found


def rows(made):
    """Every row of every database."""
    found = {}
    for name, database in made.databases.items():
        for metadata in (tables.API, tables.CELL):
            for table in metadata.sorted_tables:
                with database.api.connect() as connection:
                    if sa.inspect(connection).has_table(table.name):
                        found[name, table.name] = connection.execute(
                            sa.select(table)
                        ).all()
    return found


@cases('seed', ('first', 1), more=(('second', 0), ('third', 2)))
def test_a_dry_run_chooses_what_requests_then_get(made, seed):
    cloud = made()
    asked = requests_of(random.Random(seed), 12)
    before, held = rows(cloud), cloud.held()
    with dry_run.opened(cloud.conf, sources(cloud)) as run:

        def try_it(uuids, values):
            found = run.reader.manager.select_destinations(
                RequestContext(overwrite=False),
                cloud.request(**values),
                uuids,
                True,
                True,
            )
            return [[each.service_host for each in one] for one in found]

        tried = answers(asked, try_it)
        assert [each.head.result for each in run.log.records] == [
            'unschedulable' if hosts is None else 'scheduled' for hosts in tried
        ]
        run.forget()
        assert answers(asked, try_it) == tried
    assert (rows(cloud), cloud.held()) == (before, held)
    assert cloud.notifications == []
    assert set(cloud.faults.seen) == {'GET'}
    scheduler = cloud.compose_remembering()
    real = answers(
        asked, lambda uuids, values: cloud.ask(scheduler, uuids, True, **values)
    )
    assert real == tried
    assert None in tried


def test_answers_have_less_by_what_was_claimed(made):
    cloud = made()
    context = RequestContext(overwrite=False)
    real = PlacementClient(cloud.adapter)
    dry_placement = DryPlacement(real)

    def offered(placement, query=QUERY):
        answer = placement.candidates(context, query)
        assert isinstance(answer, Candidates)
        amounts = {
            uuid: (said['capacity'], said['used'])
            for uuid, each in answer.summaries.items()
            for name, said in each['resources'].items()
            if name == 'VCPU'
        }
        return list(answer.requests), amounts

    before = offered(real)
    candidate = before[0][0]
    (host,) = candidate['allocations']
    claims = []
    while candidate in offered(dry_placement)[0]:
        (uuid,) = new_uuids()
        wanted = ClaimRequest(uuid, candidate)
        made_claim = dry_placement.claim(context, wanted, '1.36', 'p', 'u')
        assert isinstance(made_claim, Claimed)
        claims.append(made_claim)
    assert offered(real) == before
    assert len(claims) == before[1][host][0] // 2
    assert dry_placement.taken[host, 'VCPU'] == 2 * len(claims)
    limited = f'limit=2&{QUERY}'
    assert offered(dry_placement, limited)[0] == before[0][1:3]
    for claim in claims:
        wanted = ClaimRequest(claim.consumer_uuid, candidate)
        real.claim(context, wanted, '1.36', 'p', 'u')
    assert offered(dry_placement)[0] == offered(real)[0]
    assert dry_placement.undo(context, claims, 1.0) == {}
    assert offered(dry_placement) == offered(real)
    assert dry_placement.taken == {}

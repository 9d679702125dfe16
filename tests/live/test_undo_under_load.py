# SPDX-License-Identifier: Apache-2.0
"""A request for many servers is undone while others claim on the same hosts."""

from __future__ import annotations

import random
import threading
import time
import uuid

import pytest

from novasched import errors
from novasched.claiming.claims import Claims
from novasched.claiming.request import ScheduleRequest
from novasched.journal.recovery import Recovery
from novasched.journal.store import FileJournal
from novasched.objects.context import RequestContext
from novasched.placement.client import PlacementClient
from novasched.placement.rollback import claim_recovery
from novasched.ports import Candidates, ClaimRequest
from novasched_lab.resource_providers import Inventory, Provider, provide
from tests.faults.conftest import CONF, adapter_of
from tests.live.servers.placement import Placement
from tests.support.clouds import factories

HOSTS, MANY, OTHERS, UNDO_WITHIN_S, RECOVERED_WITHIN_S = 60, 120, 3, 2.0, 120.0


@pytest.fixture(scope='module')
def server(mariadb, tmp_path_factory):
    made = Placement(tmp_path_factory.mktemp('p'), mariadb.create_database('undo'))
    made.start()
    yield made
    made.close()


class Hurried(PlacementClient):
    """Has as little time to undo as on a machine that is many times slower."""

    def undo(self, context, claims, within_s=UNDO_WITHIN_S, keeps_unknown=False):
        return super().undo(context, claims, UNDO_WITHIN_S)


@pytest.fixture
def adapters(server, tmp_path):
    made = []

    def make():
        path = tmp_path / f'{len(made)}.conf'
        made.append(adapter_of(path, CONF.format(url=server.url, timeout_s=120)))
        return made[-1]

    yield make
    for each in made:
        each.session.session.close()


@pytest.fixture
def hosts(adapters):
    names = [str(uuid.uuid4()) for _ in range(HOSTS)]
    providers = [
        Provider(each, f'h-{each}', {'VCPU': Inventory(200)}) for each in names
    ]
    provide(adapters(), providers)
    return names


@pytest.fixture
def others(adapters, hosts):
    """Starts clients that claim and release on all hosts until the test ends."""
    stop = threading.Event()

    def claim(number, adapter):
        rng = random.Random(number)
        while not stop.wait(0.1):
            url = f'/allocations/{uuid.uuid4()}'
            allocations = {rng.choice(hosts): {'resources': {'VCPU': 1}}}
            body = {'allocations': allocations, 'project_id': 'p', 'user_id': 'u'}
            body['consumer_generation'] = None
            adapter.put(url, json=body, microversion='1.28', raise_exc=False)
            adapter.delete(url, raise_exc=False)

    threads = [
        threading.Thread(target=claim, args=(number, adapters()))
        for number in range(OTHERS)
    ]

    def start():
        for each in threads:
            each.start()

    yield start
    stop.set()
    for each in filter(threading.Thread.is_alive, threads):
        each.join()


def undo_late(claims, request, wanted, meanwhile):
    """Claim, and fail when all is claimed."""
    with claims:
        assert claims.make_all(request, wanted) is None
        meanwhile()
        raise errors.NoValidHost('No host is left for the last one.')


@pytest.mark.exhaustive('minutes of load; an outage leaves claims in the first tier')
@pytest.mark.scenario('F40', 'I2')
def test_recovery_undoes_claims_that_a_busy_placement_left(
    server, adapters, hosts, others, tmp_path
):
    adapter = adapters()
    journal = FileJournal(str(tmp_path / 'journal'))
    wanted = [
        ClaimRequest(
            str(uuid.uuid4()),
            {'allocations': {hosts[n % HOSTS]: {'resources': {'VCPU': 1}}}},
        )
        for n in range(MANY)
    ]
    asked = ScheduleRequest(
        RequestContext(overwrite=False, user_id='u'),
        factories.request(project_id='p'),
        candidates=Candidates((), '1.36'),
    )
    claims = Claims(Hurried(adapter), asked, journal)
    with pytest.raises(errors.NoValidHost):
        undo_late(claims, factories.request(project_id='p'), wanted, others)
    assert journal.to_undo()
    recovery = Recovery(journal, claim_recovery(adapter))
    until = time.monotonic() + RECOVERED_WITHIN_S
    while journal.to_undo() and time.monotonic() < until:
        recovery.undo_left_claims()
    held = [one for one in wanted if server.allocations(one.consumer_uuid)]
    assert (journal.to_undo(), held) == ([], [])
    journal.close()

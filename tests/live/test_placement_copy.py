# SPDX-License-Identifier: Apache-2.0
"""A copy of placement that serves and claims while others write, on real databases;
and a daemon that has one.

NOVASCHED_COPY_SECONDS is for how long; by default some seconds.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import random
import threading
import time

import pytest

from novasched.db import engines
from novasched.db.transactions import Database
from novasched.objects.context import RequestContext
from novasched.placement.client import PlacementClient
from novasched.placement_copy import copy
from novasched.placement_copy.claims import PlacementWithCopy
from novasched.placement_copy.readers.database import DatabaseReader
from novasched.ports import Candidates, ClaimRefused, ClaimRequest, ClaimUnknown
from novasched.providers.by_root import CandidatesByRoot
from novasched.providers.contents import build
from novasched.resources.query import VERSION, Group, Query
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.faults.conftest import CONF, adapter_of
from tests.live.peer import PeerError
from tests.live.placement_churn import Churn, Turns
from tests.live.servers.placement import Placement
from tests.live.servers.process import running, wait_until
from tests.live.test_placement_contents import comparable
from tests.support.clouds.configuration import make_conf
from tests.support.placement import placement_worlds as worlds
from tests.support.tables.combinations import SERVERS

SECONDS = float(os.environ.get('NOVASCHED_COPY_SECONDS', '4'))
MOST_S = SECONDS + 60
WRITERS = 4
CLAIMANTS = 2
PAUSE_EVERY_S = min(5.0, SECONDS / 2)
ASKED_IN_PAUSE = 8
HOLDING = 15
FORBIDDEN = [
    (),
    ('COMPUTE_STATUS_DISABLED',),
    ('COMPUTE_STATUS_DISABLED', 'HW_CPU_X86_VMX'),
]
LOAD_EVERY_S = 2.0
ONE_TRY = '[placement]\nallocation_conflict_retry_count = 1'
# Placement may delete a provider while it takes a claim on it.
OVER = """
SELECT u.resource_provider_id, u.used, (i.total - i.reserved) * i.allocation_ratio
FROM (SELECT resource_provider_id, resource_class_id, SUM(used) AS used
      FROM allocations GROUP BY resource_provider_id, resource_class_id) u
JOIN resource_providers p ON p.id = u.resource_provider_id
LEFT JOIN inventories i ON i.resource_provider_id = u.resource_provider_id
    AND i.resource_class_id = u.resource_class_id
WHERE i.id IS NULL OR u.used > (i.total - i.reserved) * i.allocation_ratio
"""


@pytest.fixture(scope='module', params=SERVERS)
def url(request):
    """The URL of a database for placement."""
    return request.getfixturevalue(request.param).create_database('changing')


@pytest.fixture(scope='module')
def changing(tmp_path_factory, url):
    """A placement of its own."""
    made = Placement(tmp_path_factory.mktemp('changing'), url, ONE_TRY)
    with running(made) as server:
        yield server


@pytest.fixture
def adapter(tmp_path, changing):
    """The way of a scheduler to it."""
    text = CONF.format(url=changing.url, timeout_s=60)
    made = adapter_of(tmp_path / 'placement.conf', text)
    yield made
    made.session.session.close()


@pytest.fixture
def reader(url):
    """Reads its database as a scheduler does."""
    conf = make_conf(placement_database={'connection': url})
    engine = engines.placement_engine(conf)
    yield DatabaseReader(Database(engine))
    engine.dispose()


class Served:
    """A copy, and threads that ask it and claim what it offers."""

    def __init__(self, keeper, placement, churn):
        self.keeper = keeper
        self._placement = placement
        self._churn = churn
        self.counts = collections.Counter()
        self.ages = []
        self.held = {}

    def claimant(self, number):
        """Return a function that asks once, and claims."""
        rng = random.Random(1000 + number)
        own = []

        def step():
            if len(own) >= HOLDING:
                self._drop(rng, own)
            found = self.keeper.candidates(query(rng))
            self.ages.append(self.keeper.age_s())
            assert isinstance(found, Candidates), found
            listed = candidates(found)
            self.counts['asked'] += 1
            self.counts['no candidates'] += not listed
            rng.shuffle(listed)
            for candidate in listed[:3]:
                if self._claim(rng, own, candidate):
                    break

        return step

    def _claim(self, rng, own, candidate):
        consumer = worlds.new_uuid(rng)
        outcome = self._placement.claim(
            RequestContext(overwrite=False),
            ClaimRequest(consumer, candidate),
            VERSION,
            'p',
            'u',
        )
        if isinstance(outcome, ClaimRefused):
            kind = 'conflict' if outcome.conflicted else 'refused'
            others = {400: 'provider gone', 500: 'failed'}
            self.counts[others.get(outcome.status, kind)] += 1
            assert outcome.status in (400, 409, 500), outcome  # 500: a deadlock
            return False
        if isinstance(outcome, ClaimUnknown):
            self.counts['unknown'] += 1
            self._undone(outcome)
            return True
        self.counts['claimed'] += 1
        if rng.random() < 0.1 and self._undone(outcome):
            return True
        own.append(consumer)
        self.held[consumer] = {
            uuid: part['resources'] for uuid, part in candidate['allocations'].items()
        }
        return True

    def _undone(self, claimed):
        """Undo a claim; placement may refuse it, as somebody else writes."""
        left = self._placement.undo(RequestContext(overwrite=False), [claimed], 30)
        self.counts['undo refused' if left else 'undone'] += 1
        return not left

    def _drop(self, rng, own):
        """A server of ours is deleted by its compute: the copy is not told."""
        consumer = own.pop(rng.randrange(len(own)))
        del self.held[consumer]
        status = 500  # a deadlock
        while status == 500:
            status, _ = self._churn.send('DELETE', f'/allocations/{consumer}')
        assert status in (204, 404), status  # of a provider that went just then


def query(rng):
    """A host with some room, by traits and aggregates, and devices."""
    host = Group(
        resources={'VCPU': rng.choice([1, 1, 2, 4])},
        required=frozenset(rng.choice([(), (), ('CUSTOM_GOLD',), ('CUSTOM_SILVER',)])),
        forbidden=frozenset(rng.choice(FORBIDDEN)),
        member_of=(frozenset(rng.sample(worlds.AGGREGATES, 2)),)
        if rng.random() < 0.3
        else (),
    )
    device = Group('_1', {'CUSTOM_DEVICE': rng.choice([1, 1, 2])})
    return Query((host, device) if rng.random() < 0.3 else (host,))


def candidates(found):
    listed = found.requests
    return listed.flat() if isinstance(listed, CandidatesByRoot) else list(listed)


def resources(listed):
    """What candidates take, comparable."""
    return sorted(
        json.dumps(
            {u: part['resources'] for u, part in each['allocations'].items()},
            sort_keys=True,
        )
        for each in listed
    )


def check_pause(served, churn, changing, reader, rng):
    """Nobody writes: what the copy answers is what placement answers, or a new copy
    where placement fails, as it does on PostgreSQL when a trait is forbidden."""
    assert changing.rows(OVER) == []
    whole = copy.CopyKeeper(reader, SYSTEM_CLOCK)
    whole.keep_up()
    for number in range(ASKED_IN_PAUSE):
        asked = query(rng)
        at_once = candidates(served.keeper.candidates(asked))
        path = f'/allocation_candidates?{asked.encode()}'
        status, answer = churn.send('GET', path)
        listed = answer.get('allocation_requests')
        if status == 500:
            assert 'invalid input syntax for type integer' in str(answer)
            listed = candidates(whole.candidates(asked))
        served.counts[f'compared, {status}'] += 1
        if not at_once:
            served.counts['none in a pause'] += 1
            assert listed == []
        if number % 2:
            fresh = candidates(served.keeper.candidates(asked, fresh=True))
            assert resources(fresh) == resources(listed)
    whole.stop()


def test_a_copy_serves_while_others_write(
    changing, reader, adapter, monkeypatch, record_property
):
    monkeypatch.setattr(copy, 'LOAD_EVERY_S', LOAD_EVERY_S)
    churn, turns, rng = Churn(changing.url), Turns(), random.Random(3)
    churn.build()
    took_s = []

    @contextlib.contextmanager
    def measure():
        began = time.monotonic()
        yield
        took_s.append(time.monotonic() - began)

    keeper = copy.CopyKeeper(reader, SYSTEM_CLOCK, measure=measure, patience_s=60)
    placement = PlacementWithCopy(PlacementClient(adapter), keeper)
    served, ended = Served(keeper, placement, churn), threading.Event()

    def upkeep():
        while not ended.is_set():
            keeper.keep_up()

    reading = threading.Thread(target=upkeep, daemon=True)
    reading.start()
    wait_until(lambda: not keeper.problem(), 30, 'the first read')
    for number in range(WRITERS):
        turns.start(churn.writer(number))
    for number in range(CLAIMANTS):
        turns.start(served.claimant(number))
    begun = time.monotonic()

    def is_enough():
        lasted_s = time.monotonic() - begun
        has_claimed = served.counts['claimed'] > SECONDS / 2
        return lasted_s > SECONDS and (has_claimed or lasted_s > MOST_S)

    try:
        while not is_enough():
            time.sleep(PAUSE_EVERY_S)
            with turns.pause():
                check_pause(served, churn, changing, reader, rng)
    finally:
        turns.end()
        ended.set()
        keeper.stop()
        reading.join(30)
    keeper._read(include_unversioned=True)
    assert comparable(keeper._copy.table) == comparable(build(reader.read()))
    there = changing.consumers()
    for consumer, amounts in served.held.items():
        # What a device held goes with it, if it went just then.
        assert changing.allocations(consumer).items() <= amounts.items()
        assert consumer in there
    assert changing.rows(OVER) == []
    assert not keeper.fallbacks
    assert keeper.differences == 0
    figures = {
        **served.counts,
        **churn.done,
        'held': len(served.held),
        'oldest, s': round(max(served.ages), 2),
        'mean age, s': round(sum(served.ages) / len(served.ages), 2),
        'reads': len(took_s),
        'mean read, ms': round(1000 * sum(took_s) / len(took_s), 1),
    }
    record_property('figures', figures)
    print(json.dumps(figures))  # noqa: T201
    assert served.counts['claimed'] > SECONDS / 2


# -- a daemon


WORKERS = 2
SHARING = r'^/resource_providers\?required='
"""What is asked once in each first load."""


@pytest.mark.ours
def test_a_daemon_finds_hosts_without_asking_placement(
    daemon, cloud, placement, gate, account, claims, eventually, new_uuid
):
    asked = daemon(
        placement={'endpoint_override': gate.url},
        placement_database={'connection': account},
        novasched={'candidates': 'mirror'},
    )

    def queries():
        return gate.asked('GET', 'allocation_candidates')

    def is_silent():
        gate.forget()
        asked.select(level='4.3')
        return not queries()

    eventually(is_silent, 'the copy is used')
    node = cloud.hosts['node-1']
    wanted = {'VCPU': 2, 'MEMORY_MB': 4096, 'DISK_GB': 30}
    reply = asked.select(flavor={'vcpus': 2, 'memory_mb': 4096, 'root_gb': 30})
    claims.expect(reply.uuid)
    (best,) = reply.best
    assert best['service_host'] == node.name
    assert best['allocation_request_version'] == VERSION
    assert json.loads(best['allocation_request']) == {
        'allocations': {node.uuid: {'resources': wanted}},
        'mappings': {'': [node.uuid]},
    }
    assert placement.allocations(reply.uuid) == {node.uuid: wanted}
    assert [each['service_host'] for each in reply.alternates] == ['node-2', 'node-3']
    reply = asked.select(zone='az3')
    claims.expect(reply.uuid)
    assert reply.hosts == ['node-5']
    other = new_uuid()
    body = {
        'allocations': {node.uuid: {'resources': {'VCPU': node.vcpus - 2}}},
        'project_id': 'p',
        'user_id': 'u',
        'consumer_generation': None,
    }
    placement.put(f'/allocations/{other}', body)
    reply = asked.select()
    claims.expect(reply.uuid)
    assert reply.hosts == ['node-2']
    placement.release(other)
    big = {'vcpus': node.vcpus - 2}
    reply = asked.select(flavor=big)
    claims.expect(reply.uuid)
    assert reply.hosts == ['node-1']
    with pytest.raises(PeerError) as failed:
        asked.client.select(flavor=big)
    assert failed.value.name == 'NoValidHost'
    assert queries() == []
    assert 'copier-secret' not in asked.log


@pytest.mark.ours
def test_without_an_option_one_worker_reads_the_api_for_all(
    daemon, gate, claims, eventually
):
    """Requests of both workers are answered without a query for candidates."""
    asked = daemon(
        placement={'endpoint_override': gate.url},
        scheduler={'workers': WORKERS},
        novasched={'candidates': None, 'host_state_max_age': None},
    )

    def copies():
        lines = asked.log.splitlines()
        return [line for line in lines if 'The copy of placement is there' in line]

    eventually(lambda: len(copies()) == WORKERS, 'each worker has a copy')
    assert all(line.endswith('read from its API') for line in copies())
    assert len(gate.asked('GET', SHARING)) == 1
    gate.forget()
    for _ in range(4 * WORKERS):
        reply = asked.select(zone='az3')
        claims.expect(reply.uuid)
        assert reply.hosts == ['node-5']
    assert not gate.asked('GET', 'allocation_candidates.*limit=')

# SPDX-License-Identifier: Apache-2.0
"""What picks depend on is looked at by few requests to placement's API."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from novasched.placement_copy.readers.api import TREES_AT_ONCE
from novasched.providers.generation_cache import GenerationCache
from tests.support.placement.placement_api import says
from tests.support.tables.cases import cases

DEADLINE_S = 30
SUBMITTED_S = 0.2


@pytest.fixture
def look(world, served):
    """Return a function of roots: what is otherwise, and what was asked."""
    reader, asked = served
    known = reader.read()
    ids = {uuid: id_ for id_, uuid in known.uuids.items()}
    asked()

    as_known = {}

    def run(*roots, with_aggregates=True, terms=None, claims=0):
        wanted, seen = {ids[each] for each in roots}, GenerationCache(as_known)
        found = reader.trees(known, wanted, with_aggregates, terms, seen)
        for _ in range(claims):
            seen.claimed(wanted)
        return found and says(found), sorted(asked())

    return run


def test_nothing_has_changed(look, many):
    assert look('h2') == (None, ['/resource_providers/h2'])
    assert look('h1') == (None, ['/resource_providers?in_tree=h1'])
    trees = [f'/resource_providers?in_tree={each}' for each in ('h1', 'h2', 'pool')]
    assert look('h1', 'h2', 'pool') == (None, trees)


class Asking:
    """What is known; tells how many looks have begun."""

    def __init__(self, known):
        self._known, self.begun = known, threading.Semaphore(0)

    def __getattr__(self, name):
        return getattr(self._known, name)

    def trees(self, roots):
        found = self._known.trees(roots)
        self.begun.release()
        return found


def test_look_that_waits_for_a_thread_serves_all_that_ask(
    world, world_api, served, many
):
    """Other looks hold all threads while several requests ask for one host."""
    _, script = world_api
    reader, asked = served
    known = reader.read()
    ids = {uuid: id_ for id_, uuid in known.uuids.items()}
    answer, is_open = script.answer, threading.Event()
    begun = threading.Semaphore(0)

    def held_back(request):
        begun.release()
        assert is_open.wait(DEADLINE_S)
        return answer(request)

    asked()
    script.answer = held_back
    with ThreadPoolExecutor(TREES_AT_ONCE + 3) as pool:
        hosts = [f'host-{number}' for number in range(TREES_AT_ONCE)]
        looks = [pool.submit(reader.trees, known, {ids[host]}) for host in hosts]
        assert all(begun.acquire(timeout=DEADLINE_S) for _ in hosts)
        asking = Asking(known)
        looks += [pool.submit(reader.trees, asking, {ids['h2']}) for _ in range(3)]
        assert all(asking.begun.acquire(timeout=DEADLINE_S) for _ in range(3))
        time.sleep(SUBMITTED_S)  # the next thing that they do is to ask
        is_open.set()
        assert [look.result(DEADLINE_S) for look in looks] == [None] * len(looks)
    assert asked().count('/resource_providers/h2') == 1


@cases(
    'change, with_aggregates, is_seen, asked_more',
    ('a trait', lambda w: w.write('h2', traits=['T1']), True, True, 2),
    ('no matter', lambda w: w.write('h2', traits=['T1']), False, True, 1),
    ('an aggregate', lambda w: w.write('h2', aggregates=['a9']), True, True, 2),
    ('no matter either', lambda w: w.write('h2', aggregates=[]), False, False, 1),
    ('a claim', lambda w: w.write('h2', used={'VCPU': 1}), True, False, 2),
    ('moved', lambda w: w.write('h2', parent='h1'), False, True, 1),
    ('gone', lambda w: w.providers.pop('h2'), True, True, 0),
)
def test_a_provider_of_its_own(
    look, world, change, with_aggregates, is_seen, asked_more
):
    change(world)
    found, asked = look('h2', with_aggregates=with_aggregates)
    more = [f'/resource_providers/h2/{each}' for each in ('traits', 'aggregates')]
    assert asked == ['/resource_providers/h2', *sorted(more[:asked_more])]
    assert (found is not None) == is_seen
    if is_seen and with_aggregates:
        assert found == {u: each for u, each in world.says().items() if u == 'h2'}


def test_generation_of_own_claims_costs_no_further_query(look, world):
    one = ['/resource_providers/h2']
    world.step_s = 0
    for _ in range(2):
        assert look('h2', claims=1) == (None, one)
        world.write('h2', used={'VCPU': 1})
    assert look('h2') == (None, one)
    world.write('h2', traits=['T1'])
    found, asked = look('h2', claims=1)
    assert found['h2']['traits'] == ['T1']
    assert len(asked) == 3
    world.write('h2', used={'VCPU': 2})
    assert look('h2')[0] == found  # it was not as known when it was claimed


@pytest.fixture
def look_at_h2(served):
    """Return a function that reads, and then one that looks at h2."""
    reader, asked = served

    def read():
        known, as_known = reader.read(), {}
        (id_,) = (each for each, uuid in known.uuids.items() if uuid == 'h2')

        def run():
            asked()
            found = reader.trees(known, {id_}, generations=GenerationCache(as_known))
            return found and says(found)['h2']['traits'], len(asked())

        return run

    return read


@pytest.mark.parametrize('apart_s', [0, 2])
def test_generation_that_comes_again_proves_nothing(look_at_h2, world, apart_s):
    world.step_s = world.age_s = apart_s
    look = look_at_h2()
    assert look()[0] is None
    world.providers['h2']['generation'] = 0
    world.write('h2', traits=['T2'])
    assert look() == (['T2'], 3)


def test_write_within_the_second_of_a_read_is_queried_again(look_at_h2, world):
    world.age_s = 0
    world.write('h2')
    look = look_at_h2()
    assert look() == (None, 3)
    world.age_s = 2
    assert [look(), look()] == [(None, 3), (None, 1)]


def test_aggregates_that_were_not_looked_at_are_asked_about(look, world):
    world.write('h2', aggregates=['a9'])
    assert look('h2', with_aggregates=False, claims=1)[0] is None
    world.write('h2', used={'VCPU': 1})
    assert look('h2')[0]['h2']['aggregates'] == ['a9']


def test_many_of_their_own_are_listed_by_what_they_must_meet(many, look):
    hosts, listing = [f'host-{n}' for n in range(9)], '/resource_providers'
    for host in hosts:
        many.write(host, traits=['T2'])
    terms = 'required=T2%2C%21T1'
    assert look(*hosts, terms=terms) == (None, [f'{listing}?{terms}'])
    assert f'{listing}?{terms}' not in look(*hosts, 'h1', terms=terms)[1]
    many.write('host-3', traits=['T1', 'T2'])
    found, asked = look(*hosts, terms=terms)
    assert found['host-3']['traits'] == ['T1', 'T2']
    assert {f'{listing}?{terms}', f'{listing}/host-3/traits'} <= {*asked}


def test_a_child_that_came_is_read_as_a_whole(look, world):
    world.add('new', parent='h1', traits=['T2'], aggregates=['a1'], DISK_GB=5)
    found, asked = look('h1')
    assert found.keys() == {'h1', 'h1-numa', 'h1-nic', 'new'}
    assert found['new']['traits'] == ['T2']
    assert [each for each in asked if each.endswith('/inventories')] == [
        '/resource_providers/new/inventories'
    ]

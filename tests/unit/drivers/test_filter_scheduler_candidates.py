# SPDX-License-Identifier: Apache-2.0
"""The candidates of hosts: whose they are, in which order, and for which groups."""

import logging

from novasched.drivers.filter_scheduler import candidates_in_order
from novasched.objects.request_spec import RequestGroup
from novasched.ports import FORGET_AFTER_S, Candidates, KnownRoots
from tests.support.clouds import factories
from tests.support.clouds.fakes import VERSION, FakeClock, candidate
from tests.support.tables.cases import cases

PORT = 'b0000000-0000-4000-8000-000000000001'


def test_the_first_of_each_host_come_first(caplog):
    caplog.set_level(logging.DEBUG, 'novasched')
    table = factories.hosts(allocation_candidates=[[1, 2, 3], [], [4], [5, 6]])
    found = [(host.host, candidate) for host, candidate in candidates_in_order(table)]
    assert found == [
        *(('h1', 1), ('h3', 4), ('h4', 5)),
        *(('h1', 2), ('h1', 3), ('h4', 6)),
    ]
    (message,) = caplog.messages
    assert 'candidatefor host (h2, h2)' in message


@cases(
    'candidate, expected',
    ('nothing was claimed', None, []),
    ('it names the group', {'mappings': {'port': [PORT]}}, [PORT]),
    ('it does not', {'mappings': {'': [PORT]}}, []),
    ('it is of an old placement', {}, []),
)
def test_request_groups_get_the_providers_of_the_candidate(candidate, expected):
    groups = [RequestGroup(requester_id='port', provider_uuids=[])]
    request = factories.request(requested_resources=groups)
    (group,) = request.with_providers(candidate).requested_resources
    assert group.provider_uuids == expected
    assert groups[0].provider_uuids == []


def test_a_request_without_groups_is_the_same():
    request = factories.request()
    assert request.with_providers({'mappings': {}}) is request


def test_candidates_are_filed_under_each_provider_in_order():
    first, second = candidate('root', 'child'), candidate('root')
    answer = Candidates((first, second), VERSION)
    assert answer.by_provider() == {'root': [first, second], 'child': [first]}


def root_of(**roots):
    return {uuid: {'root_provider_uuid': root} for uuid, root in roots.items()}


SUMMARIES = root_of(root='root', child='root', other='root', shared='shared')


@cases(
    'providers, nodes, filed',
    ('a child alone', ['child'], {'root'}, ['child', 'root']),
    (
        'a child and shared storage',
        ['child', 'shared'],
        {'root'},
        ['child', 'shared', 'root'],
    ),
    ('two children', ['child', 'other'], {'root'}, ['child', 'other', 'root']),
    ('the node too', ['child', 'root'], {'root'}, ['child', 'root']),
    ('no node is known', ['child'], (), ['child', 'root']),
    ('a provider without summary', ['stranger'], (), ['stranger']),
)
def test_candidates_that_take_from_no_node_are_filed_under_the_root(
    providers, nodes, filed
):
    one = candidate(*providers)
    found = Candidates((one,), VERSION, SUMMARIES).by_provider(nodes)
    assert found == {uuid: [one] for uuid in filed}


def test_summaries_of_an_old_placement_without_roots_are_read():
    one = candidate('child')
    answer = Candidates((one,), VERSION, {'child': {}})
    assert answer.by_provider() == {'child': [one]}


class Watched(dict):
    """Summaries that count how often somebody looks at them."""

    looks = 0

    def __getitem__(self, uuid):
        self.looks += 1
        return super().__getitem__(uuid)


def test_a_root_that_is_no_node_is_looked_up_once():
    known = KnownRoots()
    orphan, child = candidate('orphan'), candidate('child', 'orphan')
    for looks in (1, 0):
        answer = Candidates((orphan,), VERSION, Watched(root_of(orphan='orphan')))
        assert answer.by_provider({'root'}, known.uuids()) == {'orphan': [orphan]}
        assert answer.summaries.looks == looks
    summaries = root_of(orphan='orphan', child='root')
    answer = Candidates((child,), VERSION, summaries)
    found = answer.by_provider({'root'}, known.uuids())
    assert found == {'child': [child], 'orphan': [child], 'root': [child]}
    assert known.uuids() == {'orphan'}


def test_a_root_is_looked_up_again_for_it_may_get_a_parent():
    clock = FakeClock()
    known = KnownRoots(clock)
    known.uuids().add('orphan')
    clock.advance(FORGET_AFTER_S - 1)
    assert known.uuids() == {'orphan'}
    clock.advance(1)
    assert known.uuids() == set()

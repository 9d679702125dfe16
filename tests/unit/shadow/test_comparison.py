# SPDX-License-Identifier: Apache-2.0
"""How our choice compares with nova's, and why they differ."""

import contextlib
import math

import pytest

from novasched import errors
from novasched.decisions.comparison import KnownBy, NovaChoice
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.weighers.resources import CPUWeigher, RAMWeigher
from novasched.shadow.comparison import Taken, compare
from tests.support.clouds import factories
from tests.support.records.recordings import Recorded
from tests.support.tables.cases import cases

UUIDS = [f'c0000000-0000-4000-8000-{number:012}' for number in range(3)]
RAM = [9000, 8000, 8000, 7000]
"""Free memory of h1 to h4; h4 is full."""
ENOUGH = 'There are not enough hosts available.'
WEIGHERS = [RAMWeigher(1.0)]


def decided(uuids=UUIDS[:1], *, limit=10, weighers=WEIGHERS, ram=RAM, **columns):
    """Return the recorder of a request for servers."""
    hosts = factories.hosts(free_ram_mb=ram, num_instances=[0, 0, 0, 10], **columns)
    recorded = Recorded(hosts, filters=[NumInstancesFilter(limit)], weighers=weighers)
    with contextlib.suppress(errors.NoValidHost):
        recorded.ask(uuids)
    return recorded.log.requests[-1]


def chosen(*hosts):
    """What nova chose for the servers."""
    return {
        uuid: NovaChoice(host, KnownBy.ALLOCATION if host else KnownBy.FAILED)
        for uuid, host in zip(UUIDS, hosts, strict=False)
    }


def compared(nova, **given):
    (found,) = compare(decided(), chosen(nova), **given)
    return found


@cases(
    ('nova', 'verdict', 'cause', 'detail'),
    ('the_same_host', 'h1', 'equal', '', ''),
    ('a_lighter_host', 'h2', 'better', 'unknown', ''),
    ('a_host_that_a_filter_rejects', 'h4', 'rejected', 'filter', 'NumInstancesFilter'),
    ('a_host_that_was_not_offered', 'h9', 'rejected', 'not_offered', ''),
    ('no_host', None, 'ours_only', 'unknown', ''),
)
def test_verdict_and_cause(nova, verdict, cause, detail):
    found = compared(nova)
    assert (found.verdict, found.cause, found.detail) == (verdict, cause, detail)
    assert found.ours == 'h1'


def test_unknown_choice_is_no_difference():
    (found,) = compare(decided(), {})
    assert (found.verdict, found.cause) == ('unknown', '')


@cases(
    ('fault', 'cause', 'detail'),
    ('without_a_candidate', 'No valid host was found. ', 'no_candidates', ''),
    ('by_its_filters', f'No valid host was found. {ENOUGH}', 'nova_filters', ''),
    ('by_another_error', 'MessagingTimeout', 'nova_error', 'MessagingTimeout'),
)
def test_fault_of_the_server_says_why_nova_found_no_host(fault, cause, detail):
    choice = NovaChoice(None, KnownBy.FAILED, fault=fault)
    (found,) = compare(decided(), {UUIDS[0]: choice})
    assert (found.verdict, found.cause, found.detail) == ('ours_only', cause, detail)


@pytest.mark.parametrize('nova', ['h1', None])
def test_where_we_find_no_host(nova):
    (found,) = compare(decided(limit=0), chosen(nova))
    expected = ('nova_only', 'filter') if nova else ('equal', '')
    assert (found.verdict, found.cause) == expected
    assert found.ours is None


def test_hosts_of_one_weight_are_alike():
    recorder = decided(weighers=[RAMWeigher(-1.0)])
    (found,) = compare(
        recorder, chosen('h3' if recorder.turns[0].host == 'h2' else 'h2')
    )
    assert (found.verdict, found.cause) == ('alike', 'chance')
    assert found.our_weight == found.nova_weight


@cases(
    ('nova', 'weighers'),
    ('the_best_without_it', 'h2', ['RAMWeigher']),
    ('never_the_best', 'h3', []),
)
def test_weigher_that_explains_the_choice_of_nova_is_named(nova, weighers):
    recorder = decided(
        weighers=[RAMWeigher(2.0), CPUWeigher(0.1)], vcpus_total=[8, 16, 8, 8]
    )
    (found,) = compare(recorder, chosen(nova))
    assert (found.verdict, list(found.weighers)) == ('better', weighers)


@cases(
    ('given', 'cause', 'detail'),
    ('cut_for_nova', {'most_candidates': 2}, 'truncated', ''),
    ('seen_late', {'is_late': True}, 'late', ''),
    (
        'another_request_took_a_host',
        {'others': [Taken('h1', 0.0, 'req-2')], 'is_late': True},
        'other_request',
        'req-2',
    ),
    ('others_took_others', {'others': [Taken('h3', 0.0, 'req-2')]}, 'unknown', ''),
)
def test_cause_by_what_came_between(given, cause, detail):
    found = compared('h2', **given)
    assert (found.verdict, found.cause, found.detail) == ('better', cause, detail)


def test_servers_of_a_request_that_are_exchanged_are_alike():
    recorder = decided(UUIDS[:2], ram=[8001, 8000, 7000, 7000])
    ours = [turn.host for turn in recorder.turns]
    assert len(set(ours)) == 2
    found = compare(recorder, chosen(*reversed(ours)))
    assert {(each.verdict, each.cause) for each in found} == {('alike', 'chance')}


def test_later_server_differs_as_an_earlier_one_does():
    found = compare(decided(UUIDS[:3]), chosen('h2', 'h3', 'h3'))
    assert found[0].cause == 'unknown'
    assert {each.cause for each in found[1:] if each.verdict == 'better'} <= {
        'same_request'
    }


@cases(
    ('nova', 'verdict', 'cause', 'weight'),
    ('the_same_host', 'h1', 'unknown', '', None),
    ('another_by_its_best_node', 'h2', 'better', 'unknown', 8 / 9),
    ('a_host_whose_nodes_are_rejected', 'h4', 'rejected', 'filter', None),
)
def test_host_with_several_nodes(nova, verdict, cause, weight):
    hosts = factories.hosts(
        host=['h1', 'h1', 'h2', 'h2', 'h4', 'h4'],
        nodename=[f'node-{number}' for number in range(6)],
        free_ram_mb=[5000, 9000, 6000, 8000, 5000, 5000],
        num_instances=[0, 0, 0, 0, 10, 11],
    )
    recorded = Recorded(hosts, filters=[NumInstancesFilter(10)], weighers=WEIGHERS)
    recorded.ask(UUIDS[:1])
    (found,) = compare(recorded.log.requests[-1], chosen(nova))
    assert found.ours == 'h1'
    assert (found.verdict, found.cause) == (verdict, cause)
    assert found.nova_weight == weight


@cases(
    ('nova', 'multiplier', 'verdict', 'cause'),
    ('both_infinite', 'h2', math.inf, 'alike', 'chance'),
    ('no_number', 'h3', math.inf, 'unknown', ''),
    ('one_infinite', 'h2', 1.0, 'better', 'unknown'),
)
def test_weights_that_are_not_finite(nova, multiplier, verdict, cause):
    own = (factories.aggregate(ram_weight_multiplier='inf'),)
    recorder = decided(
        weighers=[RAMWeigher(multiplier)],
        ram=[9000, 8500, 0, 7000],
        aggregates=[own, (), (), ()],
    )
    (found,) = compare(recorder, chosen(nova))
    assert found.ours == 'h1'
    assert (found.verdict, found.cause) == (verdict, cause)

# SPDX-License-Identifier: Apache-2.0
"""Who is asked for the facts, when, and what comes of it."""

import threading

import pytest
from oslo_context import context as oslo_context

from novasched import errors
from novasched.manager.candidate_query import CandidateQueries
from novasched.objects.context import RequestContext
from novasched.objects.network import NetworkRequest, NetworkRequestList
from novasched.ports import QueryFailed
from novasched.resources.requirements import NetworkOrSubnet, Port
from novasched.scheduler.aggregates import Aggregate
from tests.support.clouds import factories
from tests.support.clouds.fakes import FakeNetwork, FakePlacement, FakeView
from tests.support.tables.cases import cases

P1, P2, N1 = (f'{n:08d}-7ff0-54c2-951c-428525f83c2f' for n in range(3))
PORTS = {P1: Port('normal', N1, None), P2: Port('direct', N1, None)}
NETWORK = NetworkOrSubnet('network', N1)
SUBNET = NetworkOrSubnet('subnet', 's')
FLAT = NetworkOrSubnet('subnet', 'f')
SEGMENTS = {
    NETWORK: frozenset({'g1', 'g2'}),
    SUBNET: frozenset({'g2'}),
    FLAT: frozenset(),
}
PATIENCE_S = 30
AWAY = QueryFailed(503, 'sorry', is_unavailable=True)


@pytest.fixture
def facts():
    """Return a maker of the facts of a request; the fakes are kept with it."""

    def make(request=None, network=None, **aggregates):
        make.placement = FakePlacement()
        make.placement.known_aggregates = aggregates
        make.network = network or FakeNetwork(PORTS, SEGMENTS)
        make.view = FakeView(factories.hosts())
        finder = CandidateQueries(make.view, make.placement, make.network)
        context = RequestContext(overwrite=False)
        make.missed = []
        return finder.inputs(
            context,
            request or factories.request(),
            lambda *what: make.missed.append(what),
        )

    return make


def with_ports(*ids):
    asked = [NetworkRequest(network_id=N1), *(NetworkRequest(port_id=i) for i in ids)]
    return factories.request(requested_networks=NetworkRequestList(objects=asked))


def test_prefilters_read_versions_and_aggregates_from_the_view(facts):
    known = [Aggregate(1, 'A1', 'one')]
    assert facts().minimum_compute_version == 74
    assert list(facts().aggregates) == []
    view = FakeView(factories.hosts())
    view.aggregates.update(known)
    finder = CandidateQueries(view, FakePlacement(), FakeNetwork())
    found = finder.inputs(RequestContext(overwrite=False), factories.request())
    assert view.aggregates.looks == 0
    assert list(found.aggregates) == list(found.aggregates) == known
    assert view.aggregates.looks == 1


def test_services_are_not_queried_before_a_prefilter_needs_them(facts):
    facts(with_ports(P1))
    assert facts.network.asked == facts.placement.aggregates_asked == []


def test_each_port_is_asked_for_once(facts):
    found = facts(with_ports(P1, P2, P1))
    assert found.ports() == found.ports() == PORTS
    assert sorted(facts.network.asked) == [P1, P2]


def test_the_first_port_that_fails_is_raised(facts):
    failing = {P1: errors.PortNotFound(P1), P2: errors.NetworkFailed('no')}
    found = facts(with_ports(P1, P2), FakeNetwork(failing))
    with pytest.raises(errors.PortNotFound):
        found.ports()


def test_ports_are_asked_for_side_by_side(facts):
    class Waiting(FakeNetwork):
        """Answers when two ask."""

        barrier = threading.Barrier(2, timeout=PATIENCE_S)

        def port(self, context, port_id):
            self.barrier.wait()
            return PORTS[port_id]

    assert facts(with_ports(P1, P2), Waiting()).ports() == PORTS


def test_log_lines_of_each_question_show_the_request(facts):
    class Looking(FakeNetwork):
        """Keeps which request the thread works for."""

        def port(self, context, port_id):
            self.asked.append(oslo_context.get_current() is context)
            return PORTS[port_id]

    assert facts(with_ports(P1, P2), Looking()).ports() == PORTS
    assert facts.network.asked == [True, True]


def test_required_traits_come_from_all_groups(facts):
    request = factories.request(
        extra_specs={
            'trait:CUSTOM_A': 'required',
            'trait:CUSTOM_B': 'forbidden',
            'trait1:CUSTOM_C': 'required',
        },
        image={'trait:CUSTOM_D': 'required'},
    )
    assert facts(request).required_traits() == {'CUSTOM_A', 'CUSTOM_C', 'CUSTOM_D'}


def test_a_place_is_reached_by_the_aggregates_of_its_segments(facts):
    aggregates = {'g1': frozenset('a'), 'g2': frozenset('b')}
    assert facts(None, None, **aggregates).reach([SUBNET, NETWORK, FLAT, SUBNET]) == {
        SUBNET: frozenset('b'),
        NETWORK: frozenset('ab'),
        FLAT: frozenset(),
    }
    assert sorted(facts.placement.aggregates_asked) == ['g1', 'g2']


@cases(
    'g1, missed',
    ('it has none', frozenset(), []),
    ('it is no provider', QueryFailed(404, 'unknown'), []),
    ('placement is away', AWAY, [('placement', 'sorry', 503)]),
)
def test_a_segment_without_aggregates_makes_the_place_unknown(facts, g1, missed):
    reach = facts(None, None, g1=g1, g2=frozenset('b')).reach([NETWORK, SUBNET])
    assert reach == {NETWORK: None, SUBNET: frozenset('b')}
    assert facts.missed == missed


@cases(
    'away, missed',
    ('it says no', '', []),
    ('it is away', 'the network service', [('the network service', 'no', 0)]),
)
def test_unreadable_segments_make_the_place_unknown(facts, caplog, away, missed):
    network = FakeNetwork(segments={NETWORK: errors.NetworkFailed('no', away)})
    assert facts(None, network).reach([NETWORK]) == {NETWORK: None}
    assert facts.missed == missed
    assert facts.placement.aggregates_asked == []
    assert [r.message for r in caplog.records if r.levelname == 'WARNING'] == ['no']

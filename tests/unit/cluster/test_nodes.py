# SPDX-License-Identifier: Apache-2.0
"""Compute nodes by delta: answers that overlap, clocks that jump, rows that go."""

import pytest

from novasched.cluster.cell_query import QueryTime
from novasched.cluster.host_columns import Ratios
from novasched.cluster.nodes import ComputeNodes
from novasched.cluster.services import Window
from tests.support.clouds.fakes import NOON, SECOND, FakeClock
from tests.support.databases.fake_databases import FakeCellStore, node, service
from tests.support.tables.cases import cases

OVERLAP_S = 10


class Reader:
    """Asks one cell, and takes in the answers when it is told to."""

    def __init__(self):
        self.clock = FakeClock()
        self.store = FakeCellStore()
        self.nodes = ComputeNodes(Ratios(), OVERLAP_S)

    @property
    def services(self):
        return self.nodes.cells['a'].services

    @property
    def hosts_without_service(self):
        return self.nodes.cells['a'].hosts_without_service

    def begin(self, **how):
        moment = QueryTime(
            Window.around(self.clock.utcnow(), 60), self.clock.monotonic()
        )
        return self.nodes.begin('a', moment, **how)

    def ask(self, **how):
        reading = self.begin(**how)
        return reading, reading.ask(self.store)

    def take(self, asked):
        self.nodes.take(*asked)

    def read(self, **how):
        self.take(self.ask(**how))

    def hosts(self):
        columns = self.nodes.hosts.columns()
        names, used = columns['host'].tolist(), columns['vcpus_used'].tolist()
        return dict(zip(names, used, strict=True))


@pytest.fixture
def reader():
    """A reader that knows hosts h1 and h2."""
    made = Reader()
    made.store.add_host(1)
    made.store.add_host(2)
    made.read()
    made.store.calls.clear()
    made.clock.advance(1)
    return made


def test_the_first_question_is_for_all():
    reader = Reader()
    reader.store.add_host(1)
    reader.read()
    assert reader.hosts() == {'h1': 1}
    assert reader.store.calls == ['compute_nodes', 'compute_services']


def test_the_next_asks_for_what_changed_since_the_last_began(reader):
    reader.read()
    assert reader.store.since == [NOON - OVERLAP_S * SECOND]
    assert reader.store.calls == ['news']


def test_columns_stay_without_a_change(reader):
    before = reader.nodes.changes
    reader.read()
    reader.read(complete=True)
    assert reader.nodes.changes == before


@cases(
    'stamp',
    ('by a clock that is right', NOON + 1 * SECOND),
    ('by a clock that is behind', NOON - 9 * SECOND),
    ('by a clock far ahead', NOON + 3600 * SECOND),
)
def test_a_change_is_seen(reader, stamp):
    reader.store.change(1, stamp, vcpus_used=5)
    reader.read()
    assert reader.hosts() == {'h1': 5, 'h2': 1}


@cases(
    'stamp',
    ('in the same second', NOON + 1 * SECOND),
    ('by a clock that is behind the first', NOON - 3 * SECOND),
    ('without a stamp, but created just now', None),
)
def test_a_second_change_is_seen(reader, stamp):
    reader.store.put(
        node(1, created_at=NOON, updated_at=NOON + 1 * SECOND, vcpus_used=5)
    )
    reader.read()
    reader.store.change(1, stamp, vcpus_used=6)
    reader.read()
    assert reader.hosts()['h1'] == 6


def test_a_node_that_is_deleted_goes_and_comes_back(reader):
    reader.store.soft_delete(1, NOON)
    reader.read()
    assert reader.hosts() == {'h2': 1}
    reader.store.change(1, NOON + 1 * SECOND, deleted=0, vcpus_used=7)
    reader.read()
    assert reader.hosts() == {'h2': 1, 'h1': 7}


def test_a_row_that_is_removed_without_a_trace_is_gone_at_once(reader):
    del reader.store.nodes[1]
    reader.read()
    assert reader.hosts() == {'h2': 1}
    reader.read(complete=True)
    assert reader.hosts() == {'h2': 1}


def test_a_node_may_get_another_uuid(reader):
    reader.store.change(1, NOON, uuid='other')
    reader.read()
    assert reader.nodes.hosts.by_uuid['other'] == 0
    assert node(1).uuid not in reader.nodes.hosts.by_uuid


@cases(
    'set_back_s, since',
    ('a clock that runs on', 0, NOON - 10 * SECOND),
    ('set back: the last read was earlier, too', 3600, NOON - 3610 * SECOND),
    ('set forth: better too early', -3600, NOON - 10 * SECOND),
)
def test_a_clock_that_is_set_hides_no_change(reader, set_back_s, since):
    reader.clock.set_back(set_back_s)
    reader.read()
    assert reader.store.since == [since]


def test_an_answer_that_never_came_is_made_up_for(reader):
    reader.ask()
    reader.clock.advance(60)
    reader.read()
    assert reader.store.since[-1] == NOON - OVERLAP_S * SECOND


# Answers that overlap: each test asks twice, and takes the later answer first.


def shown_after(reader, older):
    """The hosts, once a delta was read and then an older answer taken in."""
    reader.read()
    reader.take(older)
    return reader.hosts()


@pytest.mark.parametrize('complete', [True, False], ids=['full read', 'delta'])
def test_an_older_answer_does_not_undo_a_change_of_the_same_second(reader, complete):
    reader.store.change(1, NOON, vcpus_used=5)
    older = reader.ask(complete=complete)
    reader.store.change(1, NOON, vcpus_used=6)
    assert shown_after(reader, older)['h1'] == 6


@pytest.mark.parametrize('complete', [True, False], ids=['full read', 'delta'])
def test_an_older_answer_does_not_bring_back_a_deleted_node(reader, complete):
    reader.store.change(1, NOON)
    older = reader.ask(complete=complete)
    reader.store.soft_delete(1, NOON)
    assert set(shown_after(reader, older)) == {'h2'}


def test_an_older_full_read_does_not_take_away_a_new_node(reader):
    older = reader.ask(complete=True)
    reader.store.add_host(3, created_at=NOON, updated_at=None)
    assert set(shown_after(reader, older)) == {'h1', 'h2', 'h3'}


def test_an_older_full_read_does_not_take_away_a_node_that_came_back(reader):
    reader.store.soft_delete(1, NOON)
    reader.read()
    older = reader.ask(complete=True)
    reader.store.change(1, NOON, deleted=0)
    assert set(shown_after(reader, older)) == {'h1', 'h2'}


def test_an_older_full_read_still_brings_what_no_delta_showed(reader):
    reader.store.change(1, NOON - 600 * SECOND, vcpus_used=9)
    older = reader.ask(complete=True)
    reader.store.change(2, NOON, vcpus_used=5)
    assert shown_after(reader, older) == {'h1': 9, 'h2': 5}


def test_an_older_delta_does_not_bring_back_what_a_full_read_did_not_show(reader):
    reader.store.add_host(3, created_at=NOON)
    older = reader.ask()
    del reader.store.nodes[3]
    reader.read(complete=True)
    reader.take(older)
    assert set(reader.hosts()) == {'h1', 'h2'}


def test_the_older_of_two_full_reads_changes_nothing(reader):
    older = reader.ask(complete=True)
    reader.store.add_host(3, created_at=None, updated_at=None)
    reader.store.change(1, None, vcpus_used=9)
    reader.read(complete=True)
    reader.take(older)
    assert reader.hosts() == {'h1': 9, 'h2': 1, 'h3': 1}


def test_an_older_answer_does_not_enable_a_disabled_service(reader):
    older = reader.ask(complete=True)
    row = reader.store.services['h1']
    reader.store.services['h1'] = row._replace(disabled=True)
    reader.read()
    reader.take(older)
    assert reader.services.is_disabled('h1')


def test_an_older_list_of_services_does_not_hide_a_new_one(reader):
    older = reader.ask(complete=True)
    reader.store.add_host(3, created_at=NOON)
    reader.read()
    reader.take(older)
    assert reader.services.knows('h3')


def test_an_older_answer_that_comes_in_between_is_made_up_for(reader):
    """The rows of a full read may be older than what a delta showed before it."""
    delta = reader.begin()
    late = reader.ask(complete=True)
    reader.store.change(1, NOON - 50 * SECOND, vcpus_used=5)
    reader.take((delta, delta.ask(reader.store)))
    newest = reader.ask()
    reader.take(late)
    assert not reader.nodes.take(*newest)
    asked = reader.ask()
    assert reader.nodes.take(*asked)
    assert reader.hosts() == {'h1': 5, 'h2': 1}


def test_the_next_delta_asks_from_the_newest_answer_on(reader):
    older = reader.ask()
    reader.clock.advance(5)
    reader.read()
    reader.take(older)
    reader.read()
    assert reader.store.since[-1] == NOON + 6 * SECOND - OVERLAP_S * SECOND


def test_nothing_is_remembered_of_answers_before_a_full_read(reader):
    reader.store.change(1, NOON, vcpus_used=5)
    reader.read()
    reader.read(complete=True)
    assert reader.nodes.cells['a'].node_reads == {}


# Cells that are forgotten.


def test_forgotten_cell_is_read_again_in_full(reader):
    reader.nodes.forget({'a', 'unknown'})
    assert reader.hosts() == {}
    reader.read()
    assert reader.store.calls[0] == 'compute_nodes'


def test_an_answer_of_a_cell_that_was_forgotten_meanwhile_is_dropped(reader):
    reader.store.change(1, NOON, vcpus_used=5)
    late = reader.ask()
    reader.nodes.forget({'a'})
    reader.take(late)
    assert reader.hosts() == {}
    late = reader.ask()
    reader.nodes.forget({'a'})
    reader.begin()
    reader.take(late)
    assert reader.hosts() == {}


# Services.


def test_a_new_node_brings_its_service(reader):
    reader.store.add_host(3, created_at=NOON)
    reader.read()
    assert reader.services.knows('h3')
    asked = ['news', 'compute_nodes_of']
    assert reader.store.calls == [*asked, 'compute_services_of']
    reader.store.calls.clear()
    reader.read()
    assert reader.store.calls == ['news']


def test_second_write_within_a_second_is_seen_and_read_once(reader):
    """It leaves the mark as it is."""
    reader.store.change(1, reader.clock.utcnow(), pci_stats='one')
    reader.read()
    reader.store.nodes[1] = reader.store.nodes[1]._replace(pci_stats='two')
    reader.clock.advance(1)
    reader.read()
    assert reader.nodes.cells['a'].rows[1].pci_stats == 'two'
    for _ in range(3):
        reader.clock.advance(1)
        reader.store.calls.clear()
        reader.read()
        assert reader.store.calls == ['news']


def test_a_new_service_is_known_before_its_node(reader):
    reader.store.services['h3'] = service('h3', created_at=NOON)
    reader.read()
    reader.store.services['h3'] = service('h3')
    reader.store.put(node(3, created_at=NOON))
    reader.read()
    assert reader.services.knows('h3')
    assert 'compute_services_of' not in reader.store.calls


def test_a_new_service_that_is_disabled_is_known_when_it_is_enabled(reader):
    reader.store.add_host(3, created_at=NOON)
    reader.store.services['h3'] = service('h3', created_at=NOON, disabled=True)
    reader.read()
    reader.store.services['h3'] = service('h3')
    reader.read()
    assert reader.services.knows('h3')
    assert not reader.services.is_disabled('h3')


@cases('host, times', ('an unknown host', 'h3', 3), ('no host: it has none', None, 0))
def test_a_missing_service_is_looked_for_now_and_then(reader, host, times):
    reader.store.put(node(3, host=host, created_at=NOON))
    looks = []
    for _ in range(12):
        reader.store.calls.clear()
        reader.read()
        assert 'compute_services' not in reader.store.calls
        looks.append(reader.store.calls.count('compute_services_of'))
        reader.clock.advance(1)
    assert sum(looks) == times


def test_a_service_that_is_deleted_is_noticed_and_looked_for_no_more(reader):
    reader.store.delete_service('h1', NOON)
    reader.read()
    assert not reader.services.knows('h1')
    assert reader.hosts_without_service == {'h1'}
    reader.store.soft_delete(1, NOON)
    reader.read()
    assert reader.hosts() == {'h2': 1}


def test_recreated_service_is_known(reader):
    reader.store.delete_service('h1', NOON)
    reader.read()
    reader.store.services['h1'] = service('h1', id=99, created_at=NOON)
    reader.read()
    assert reader.services.rows['h1'].id == 99
    assert reader.hosts_without_service == set()


def test_an_older_list_of_services_does_not_undo_what_was_heard_since(reader):
    older = reader.ask(all_services=True)
    reader.store.delete_service('h1', NOON)
    reader.store.add_host(3, created_at=NOON)
    reader.store.services['h3'] = service('h3', created_at=NOON)
    reader.read()
    reader.take(older)
    known = reader.services
    assert [known.knows(host) for host in ('h1', 'h2', 'h3')] == [False, True, True]
    reader.read(all_services=True)
    assert reader.nodes.cells['a'].service_reads == {}


def test_of_two_lists_of_services_the_later_counts(reader):
    older = reader.ask(all_services=True)
    del reader.store.services['h1']
    reader.read(all_services=True)
    reader.take(older)
    assert not reader.services.knows('h1')


def test_a_missing_service_is_found_when_it_appears(reader):
    reader.store.put(node(3, created_at=NOON))
    reader.read()
    assert reader.hosts_without_service == {'h3'}
    reader.store.add_host(3, created_at=NOON)  # its service is as if it had been there
    reader.clock.advance(5)
    reader.read()
    assert reader.hosts_without_service == set()
    assert reader.services.knows('h3')


def test_a_service_that_is_removed_is_noticed_when_all_are_listed(reader):
    del reader.store.services['h1']
    reader.read()
    assert reader.services.knows('h1')
    reader.read(all_services=True)
    assert not reader.services.knows('h1')
    assert reader.store.calls.count('compute_nodes') == 0


# Nodes by name.


def test_nodes_are_found_by_host_and_by_name(reader):
    reader.store.put(node(9, host='h1', hypervisor_hostname='n9', created_at=NOON))
    reader.read()

    def ids(host, name):
        found = reader.nodes.named(['a', 'unknown'], host, name)
        return {uuid: [row.id for row in rows] for uuid, rows in found.items()}

    assert ids('h1', None) == {'a': [1, 9]}
    assert ids('h1', 'n9') == {'a': [9]}
    assert ids(None, 'n2') == {'a': [2]}
    assert ids('H1', None) == {'a': [1, 9]}
    assert ids(None, 'N2') == {}
    assert ids('h2', 'n1') == {}

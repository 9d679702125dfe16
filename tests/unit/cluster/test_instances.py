# SPDX-License-Identifier: Apache-2.0
"""Which instances a host has: what its compute said against what is read."""

import numpy as np
import pytest

from novasched import errors
from novasched.cluster.instances import InstanceView
from novasched.scheduler.hosts import Categories, HostTable, Snapshot
from tests.support.databases.fake_databases import instance
from tests.support.tables.cases import cases


def view(*messages, tracked=True):
    """A view that got messages: (method, host, argument)."""
    made = InstanceView(tracked)
    for method, argument in messages:
        getattr(made, method)('h1', argument)
    return made


def told(*uuids):
    return {uuid: instance(uuid) for uuid in uuids}


def message(text):
    """Return a message about h1: that it says some, has lost one, or lists all."""
    verb, *uuids = text.split()
    if verb == 'says':
        return 'update', told(*uuids)
    return ('delete', uuids[0]) if verb == 'lost' else ('sync', uuids)


@cases(
    'messages, believed',
    ('nothing was said', [], None),
    ('an unknown host says it has none', ['says'], None),
    ('an unknown host says one', ['says a'], None),
    ('one and one are not known to be all', ['says a', 'says b'], None),
    ('an unknown host says several', ['says a b'], {'a', 'b'}),
    ('a known host says one more', ['says a b', 'says c'], {'a', 'b', 'c'}),
    ('a known host says one again', ['says a b', 'says b'], {'a', 'b'}),
    ('a known host says nothing new', ['says a b', 'says'], {'a', 'b'}),
    ('an unknown host lost one', ['lost a'], None),
    ('one is gone', ['says a b', 'lost a'], {'b'}),
    ('one is gone that was not there', ['says a b', 'lost z'], {'a', 'b'}),
    ('an unknown host lists all', ['lists a'], None),
    ('it lists the same again', ['lists a', 'lists a'], {'a'}),
    ('it says twice that it has none', ['lists', 'lists'], set()),
    ('it lists others then', ['lists a', 'lists b'], None),
    ('it listed all, then says one more', ['lists a', 'says b'], {'a', 'b'}),
    ('it listed all, then lost one', ['lists a b', 'lost a'], {'b'}),
    ('the list agrees', ['says a b', 'lists b a'], {'a', 'b'}),
    ('it disagrees', ['says a b', 'lists a'], None),
    ('it disagrees, then agrees', ['says a b', 'lists a', 'lists a'], {'a'}),
)
def test_instances_are_believed_once_messages_give_the_whole_list(messages, believed):
    found = view(*map(message, messages)).reported('h1')
    assert (None if found is None else set(found)) == believed


def test_untracked_instances_are_not_believed():
    assert view(('update', told('a', 'b')), tracked=False).reported('h1') is None


@cases(
    'before, line',
    ('unknown host', [], 'a sync request from an unknown host'),
    ('another list', [('sync', ['b'])], 'did not match'),
)
def test_a_list_that_disagrees_is_logged(caplog, before, line):
    caplog.set_level('INFO')
    view(*before, ('sync', ['a']))
    assert line in caplog.text


def test_changed_copy_of_a_request_changes_no_other():
    known = view(('update', told('a', 'b')))
    known.reported('h1')['z'] = 'stub'
    assert set(known.reported('h1')) == {'a', 'b'}


class Compared:
    """A view that believes some lists of hosts in cells a and b, and the database."""

    def __init__(self, **lists):
        self.view = InstanceView()
        for host, uuids in lists.items():
            for _ in range(2):
                self.view.sync(host, uuids)
        self.rows = []
        self.asked = []
        self.on_read = lambda: None

    def read(self, hosts):
        self.asked.append({cell: sorted(names) for cell, names in hosts.items()})
        self.on_read()
        found = [(c, row) for c, row in self.rows if row.host in hosts.get(c, ())]
        return {c: [row for of, row in found if of == c] for c in hosts}

    def compare(self, **hosts):
        self.view.compare(hosts or {'a': ['h1', 'h2'], 'b': ['h3']}, self.read)

    def ask(self, table):
        return [set(f or ()) for f in self.view.column(table, self.read)]

    def reported(self, host):
        found = self.view.reported(host)
        return None if found is None else set(found)


def test_unreported_move_is_found_by_a_comparison(caplog, table):
    caplog.set_level('INFO')
    known = Compared(h1=['x', 'y'], h2=['z'])
    known.rows = [('a', instance('x', 'h1')), ('a', instance('z', 'h2'))]
    assert known.ask(table) == [{'x', 'y'}, {'x', 'y'}, {'z'}, {'z'}]
    known.compare()
    assert known.asked == [{'a': ['h1', 'h2']}]
    assert (known.reported('h1'), known.reported('h2')) == (None, {'z'})
    assert 'Instance lists of 1 hosts (such as h1) differ' in caplog.text
    known.asked.clear()
    assert known.ask(table)[0] == {'x'}
    assert known.asked == [{'a': ['h1'], 'b': ['h1']}]
    known.view.sync('h1', ['x'])
    assert known.reported('h1') == {'x'}


def test_messages_complete_the_list_that_was_read(table):
    known = Compared(h1=['x', 'y'])
    known.rows = [('a', instance('x', 'h1'))]
    known.ask(table)
    known.compare()
    known.view.update('h1', told('w'))
    assert known.reported('h1') == {'x', 'w'}


@cases(
    'message, believed',
    ('one more', ('update', told('w')), {'x', 'y', 'w'}),
    ('one less', ('delete', 'y'), {'x'}),
    ('the same', ('sync', ['x', 'y']), {'x', 'y'}),
)
def test_message_during_a_read_counts(table, message, believed):
    known = Compared(h1=['x', 'y'])
    method, argument = message
    known.on_read = lambda: getattr(known.view, method)('h1', argument)
    known.ask(table)
    known.compare()
    assert known.reported('h1') == believed


def test_unused_lists_are_not_compared_and_the_first_use_reads(table):
    known = Compared(h1=['x', 'y'], h2=['z'])
    known.rows = [('a', instance('x', 'h1')), ('a', instance('v', 'h2'))]
    known.compare()
    assert known.asked == []
    assert known.ask(table) == [{'x'}, set(), {'v'}, {'v'}]
    assert known.asked == [{'a': ['h1', 'h2'], 'b': ['h1']}]
    known.rows = [('a', instance(u, 'h1')) for u in 'xy'] + [('a', instance('z', 'h2'))]
    known.compare()
    assert (known.reported('h1'), known.reported('h2')) == ({'x', 'y'}, {'z'})


def test_failed_comparison_disbelieves_all_lists_until_the_next(table):
    known = Compared(h1=['x', 'y'])
    known.rows = [('a', instance(uuid, 'h1')) for uuid in 'xy']

    def refuse():
        raise errors.StoreFailed('a cell', 'refused')

    known.ask(table)
    known.on_read = refuse
    with pytest.raises(errors.StoreFailed):
        known.compare()
    assert known.reported('h1') is None
    known.on_read = lambda: None
    known.ask(table)
    known.compare()
    assert known.reported('h1') == {'x', 'y'}


def test_only_hosts_that_are_believed_are_compared(table):
    known = Compared(h1=['x', 'y'])
    known.view.sync('h2', ['z'])
    known.rows = [('a', instance(uuid, 'h1')) for uuid in 'xy']
    known.ask(table)
    known.asked.clear()
    known.compare(a=['h1', 'h2', 'h9'])
    assert known.asked == [{'a': ['h1']}]


def test_a_host_of_two_cells_has_the_instances_of_both(table):
    known = Compared(h1=['x', 'y'])
    known.rows = [('a', instance('x', 'h1')), ('b', instance('y', 'h1'))]
    known.ask(table)
    known.compare(a=['h1'], b=['h1'])
    assert known.reported('h1') == {'x', 'y'}


def test_untracked_lists_are_not_compared(table):
    known = Compared()
    known.view = InstanceView(tracked=False)
    known.view.update('h1', told('a', 'b'))
    known.ask(table)
    known.asked.clear()
    known.compare()
    assert known.asked == []


def test_hosts_that_are_gone_are_forgotten():
    known = view(('update', told('a', 'b')))
    known.keep({'h1', None})
    assert known.reported('h1') is not None
    known.keep({'h2'})
    assert known.reported('h1') is None


@pytest.fixture
def table():
    """Nodes of h1 in cells a and b, and two nodes of h2 in cell a."""
    return HostTable(
        Snapshot(
            {
                'host': np.array(['h1', 'h1', 'h2', 'h2'], object),
                'cell_uuid': Categories(['a', 'b'], np.array([0, 1, 0, 0])),
            }
        )
    )


def column_of(table, known, answers):
    asked = []

    def read(hosts):
        asked.append({cell: list(names) for cell, names in hosts.items()})
        return answers

    column = known.column(table, read)
    return [None if found is None else set(found) for found in column], asked


def test_all_hosts_that_are_not_believed_are_read_at_once(table):
    answers = {'a': [instance('x', 'h1'), instance('y', 'h2')], 'b': []}
    column, asked = column_of(table, view(), answers)
    assert asked == [{'a': ['h1', 'h2'], 'b': ['h1']}]
    assert column == [{'x'}, set(), {'y'}, {'y'}]


def test_nothing_is_read_when_all_are_believed(table):
    known = view(('update', told('a', 'b')))
    column, asked = column_of(table[np.array([0, 1])], known, {})
    assert asked == []
    assert column == [{'a', 'b'}, {'a', 'b'}, None, None]


def test_a_host_of_nearly_the_same_name_is_another(table):
    answers = {'a': [instance('x', 'H1'), instance('y', 'h1')], 'b': []}
    column, _ = column_of(table, view(), answers)
    assert column == [{'y'}, set(), set(), set()]

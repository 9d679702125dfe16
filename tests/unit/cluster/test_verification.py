# SPDX-License-Identifier: Apache-2.0
"""Reads of picked hosts beside looks at all cells: what is newer stays."""

import threading

import pytest

from novasched.cluster.shared_read import SharedVerification
from tests.support.databases.fake_databases import node
from tests.support.tables.cases import cases

DEADLINE_S = 30


@cases(
    'was_lost, found',
    ('it has found that a cell does not answer', False, {'h1', 'h2'}),
    ('it has found that a cell answers again', True, {'h1', 'h2', 'h3'}),
)
def test_a_look_that_began_later_says_which_cells_there_are(cloud, was_lost, found):
    view = cloud.view
    if was_lost:
        cloud.lose(cloud.b)
    else:
        view.refresh()
    seen = view.hosts(None).snapshot
    read_some = view._reader.read_some

    def overtaken(*args):
        answered = read_some(*args)
        if was_lost:
            cloud.b.mend()
            cloud.retry()
            view.refresh()
        else:
            cloud.lose(cloud.b)
        return answered

    view._reader.read_some = overtaken
    assert view.changed({node(1).uuid}, seen) == set()
    assert set(view.hosts(None).host.tolist()) == found


def test_an_older_answer_does_not_undo_what_a_look_shows_of_services(cloud):
    view = cloud.view
    view.refresh()
    seen = view.hosts(None).snapshot

    def disable(name):
        if name == 'compute_checksums_now':
            row = cloud.a.services['h1']
            cloud.a.services['h1'] = row._replace(disabled=True)
            view.refresh()

    cloud.a.on_answer = disable
    assert view.changed({node(1).uuid, node(2).uuid}, seen) == {node(1).uuid}
    assert view.hosts(None).service_disabled.tolist() == [True, False, False]


def test_an_older_look_does_not_undo_what_a_read_shows_of_services(cloud):
    """The look has read the services before one is disabled, and is taken in last."""
    view = cloud.view
    view.refresh()
    seen = view.hosts(None).snapshot
    found = []

    def verify(name):
        if name == 'news' and not found:
            row = cloud.a.services['h1']
            cloud.a.services['h1'] = row._replace(disabled=True)
            found.append(view.changed({node(1).uuid}, seen))

    cloud.a.on_answer = verify
    view.refresh()
    assert found == [{node(1).uuid}]
    assert view.hosts(None).service_disabled.tolist() == [True, False, False]


def test_a_row_that_goes_between_two_statements_is_gone(cloud):
    view = cloud.view
    view.refresh()
    seen = view.hosts(None).snapshot
    (id_,) = [i for i, row in cloud.a.nodes.items() if row.uuid == node(1).uuid]

    def change(name):
        if name == 'compute_checksums_now':
            del cloud.a.nodes[id_]

    cloud.a.nodes[id_] = cloud.a.nodes[id_]._replace(vcpus_used=9)
    cloud.a.on_answer = change
    assert view.changed({node(1).uuid}, seen) == {node(1).uuid}


def test_a_cell_that_does_not_answer_has_changed(cloud):
    view = cloud.view
    view.refresh()
    seen = view.hosts(None).snapshot
    cloud.b.fail()
    assert view.changed({node(1).uuid, node(3).uuid}, seen) == {node(3).uuid}
    assert set(view.hosts(None).host.tolist()) == {'h1', 'h2'}


def test_requests_during_a_read_share_the_next_read(threads):
    rounds, entered, gate = [], threading.Semaphore(0), threading.Semaphore(0)

    def read(wanted):
        rounds.append(set(wanted))
        entered.release()
        assert gate.acquire(timeout=DEADLINE_S)
        return {'n3'} & set(wanted)

    verify = SharedVerification(read)
    first = threads.submit(verify, ['n0'])
    assert entered.acquire(timeout=DEADLINE_S)
    others = [threads.submit(verify, [f'n{each}']) for each in range(1, 9)]
    while len(verify._next.wanted) < len(others):
        threading.Event().wait(0.001)
    gate.release(2)
    assert first.result(DEADLINE_S) == set()
    assert [each.result(DEADLINE_S) for each in others] == [{'n3'}] * len(others)
    assert rounds == [{'n0'}, {f'n{each}' for each in range(1, 9)}]


def test_of_a_read_that_raises_nothing_was_read(threads):
    def read(wanted):
        raise ValueError(wanted)

    verify = SharedVerification(read)
    with pytest.raises(ValueError, match='n1'):
        verify(['n1'])
    with pytest.raises(ValueError, match='n2'):
        verify(['n2'])

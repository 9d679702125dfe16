# SPDX-License-Identifier: Apache-2.0
"""Only the leader searches for new hosts, and it tells what came of it."""

import logging
import threading

from novasched import errors
from novasched.cluster.discovery import Discovered, Discovery, discovery_tasks
from novasched.ports import Cell
from novasched.runtime.periodic import FOLLOWS_EVERY, PeriodicRunner
from tests.support.clouds.fakes import NOON, SECOND, FakeClock
from tests.support.databases.fake_databases import service
from tests.support.tables.cases import cases

DEADLINE_S = 30
LOGGER = 'novasched.cluster.discovery'
CELL = Cell('uuid-1', 'cell1', 'rabbit://', 'sqlite://', False)
NAMELESS = Cell('uuid-2', None, 'rabbit://', 'sqlite://', False)


class FakeDirectory:
    """The rows of schedulers; ``problem`` is raised instead."""

    def __init__(self, *rows):
        self.rows = rows
        self.problem = None

    def of_program(self, binary):
        assert binary == 'nova-scheduler'
        if self.problem:
            raise self.problem
        return list(self.rows)


def scheduler(host, *, silent_s=0, **fields):
    seen = NOON - silent_s * SECOND
    row = service(host)._replace(binary='nova-scheduler', last_seen_up=seen)
    return row._replace(**fields)


class Searches:
    """Counts the searches, and answers with what comes next."""

    def __init__(self, *outcomes):
        self.count = 0
        self._outcomes = list(outcomes)

    def __call__(self):
        self.count += 1
        return self._outcomes.pop(0) if self._outcomes else Discovered()


def discovery(searches, *rows, host='b', has_turn=lambda: True):
    return Discovery(FakeDirectory(*rows), host, FakeClock(), 60, searches, has_turn)


@cases(
    'rows, searched',
    ('alone', [scheduler('b')], 1),
    ('the first of two', [scheduler('b'), scheduler('c')], 1),
    ('the second of two', [scheduler('b'), scheduler('a')], 0),
    ('the first is silent', [scheduler('b'), scheduler('a', silent_s=61)], 1),
    ('it is not, just so', [scheduler('b'), scheduler('a', silent_s=60)], 0),
    ('the first is disabled', [scheduler('b'), scheduler('a', disabled=True)], 1),
    ('the first is forced down', [scheduler('b'), scheduler('a', forced_down=True)], 1),
    (
        'who asks is alive, whatever its row says',
        [scheduler('b', silent_s=999), scheduler('c')],
        1,
    ),
    ('who asks is disabled', [scheduler('b', disabled=True)], 0),
    ('no rows at all', [], 0),
    ('nobody is alive', [scheduler('c', silent_s=999)], 0),
)
def test_the_leader_searches(rows, searched):
    searches = Searches()
    discovery(searches, *rows).discover_hosts()
    assert searches.count == searched


def test_follower_searches_every_tenth_time():
    searches = Searches()
    made = discovery(searches, scheduler('b'), scheduler('a'))
    for _ in range(2 * FOLLOWS_EVERY):
        made.discover_hosts()
    assert searches.count == 2


def test_other_schedulers_log_the_current_leader(caplog):
    caplog.set_level(logging.DEBUG, LOGGER)
    discovery(Searches(), scheduler('a'), scheduler('b')).discover_hosts()
    assert caplog.messages == ['Current leader is a, skipping discover hosts on b']


def test_a_worker_whose_sibling_searches_leaves_it_to_that():
    searches = Searches()
    discovery(searches, scheduler('b'), has_turn=lambda: False).discover_hosts()
    assert searches.count == 0


def test_new_hosts_are_logged_with_their_cells(caplog):
    caplog.set_level(logging.INFO, LOGGER)
    mapped = [(CELL, 'h1'), (CELL, 'h2'), (NAMELESS, 'h3')]
    made = discovery(Searches(Discovered(mapped=mapped)), scheduler('b'))
    made.discover_hosts()
    made.discover_hosts()
    assert caplog.messages == ['Discovered 3 new hosts: cell1:h1,cell1:h2,None:h3']


def test_a_collision_is_a_warning_once(caplog):
    caplog.set_level(logging.DEBUG, LOGGER)
    raced = Discovered(raced=['h1', 'h2'])
    discovery(Searches(raced), scheduler('b')).discover_hosts()
    said = (
        'This periodic task should only be enabled if discover hosts is not run via '
        "nova-manage, schedulers: Host '{}' mapping already exists"
    )
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ('WARNING', said.format('h1')),
        ('DEBUG', said.format('h2')),
    ]


def test_failing_cell_is_logged_once_per_failure(caplog):
    failed = Discovered(failed=[errors.StoreFailed('c1', 'refused')])
    outcomes = [failed, failed, Discovered(), failed]
    made = discovery(Searches(*outcomes), scheduler('b'))
    told = []
    for _ in outcomes:
        caplog.clear()
        made.discover_hosts()
        told.append(caplog.messages)
    line = 'The search for new hosts left out a cell: c1 could not be asked: refused'
    assert told == [[line], [], [], [line]]


@cases(
    'problem',
    ('a database is away', errors.StoreFailed('main', 'refused')),
    ('a defect', LookupError('a defect')),
)
def test_failed_search_is_logged(problem, caplog):
    directory = FakeDirectory()
    directory.problem = problem
    made = Discovery(directory, 'b', FakeClock(), 60, Searches())
    made.discover_hosts()
    (record,) = caplog.records
    assert record.message.startswith('The search for new hosts failed')


def test_hung_search_delays_no_task_and_is_not_repeated():
    let_go, entered = threading.Event(), threading.Event()
    count = []

    def hang():
        count.append(1)
        entered.set()
        let_go.wait(DEADLINE_S)
        return Discovered()

    made, clock = discovery(hang, scheduler('b')), FakeClock()
    runner = PeriodicRunner('hosts', [(60.0, made.discover_hosts)], [0.0], clock)
    runner.start()
    assert entered.wait(DEADLINE_S)
    clock.advance(60)
    assert len(count) == 1
    let_go.set()
    runner.stop()
    runner.join(DEADLINE_S)
    assert len(count) == 1
    clock.advance(60)
    runner.run_due()
    assert len(count) == 2


@cases(
    'interval, enabled, intervals',
    ('never, by default', -1, True, []),
    ('0 is a minute', 0, True, [60]),
    ('so many seconds', 300, True, [300]),
    ('nothing periodic', 300, False, []),
)
def test_the_options_say_how_often(conf, interval, enabled, intervals):
    conf.set_override('discover_hosts_in_cells_interval', interval, 'scheduler')
    conf.set_override('periodic_enable', enabled)
    tasks = discovery_tasks(conf, 'b', FakeDirectory(), FakeClock(), Searches())
    assert [interval_s for interval_s, _ in tasks] == intervals


def test_no_search_without_services(conf):
    conf.set_override('discover_hosts_in_cells_interval', 1, 'scheduler')
    assert discovery_tasks(conf, 'b', None, FakeClock(), Searches()) == []

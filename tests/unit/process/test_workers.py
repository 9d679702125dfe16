# SPDX-License-Identifier: Apache-2.0
"""Workers: how they start, replace their scheduler, and stop."""

import logging
import threading

import oslo_messaging
import pytest
from oslo_config import cfg

from novasched import errors
from novasched.process.workers import Worker
from tests.support.clouds.fakes import Part
from tests.support.suite.waiting import eventually

LIMIT_S = 20


class Slow(Part):
    """A life with a step that lasts until it is released."""

    def __init__(self, told, name, slow_at):
        super().__init__(told, name)
        self._slow_at = slow_at
        self.begun = threading.Event()
        self.released = threading.Event()

    def __getattr__(self, step):
        def do(*given):
            if step == self._slow_at:
                self.begun.set()
                assert self.released.wait(LIMIT_S)
            self._told.append(f'{self._name}.{step}')
            return 0

        return do


@pytest.fixture
def told():
    return []


class Lines:
    """Writes down what is to be announced; nothing without a list."""

    def __init__(self, told=None):
        self._told = [] if told is None else told

    def started(self, state):
        self._told.append('started')

    def reloading(self):
        self._told.append('reloading')

    def reloaded(self, state):
        self._told.append('reloaded')

    def finished(self, requests):
        self._told.append(f'{requests} finished')


def working(make, reread=lambda: None, lines=None, **options):
    """A worker whose announcements are written down, if there is a list for them."""
    lines = Lines(lines)
    return Worker(make, reread, lambda: None, lines, settle=lambda: None, **options)


def lives(*made):
    """Make these, one after the other."""
    return iter(made).__next__


def reloading(*made, reread=lambda: None, **options):
    """A worker that serves with the first, and begins to reload the next."""
    worker = working(lives(*made), reread, **options)
    worker.start()
    worker.reset()
    return worker


def stopping(worker, slow):
    """Stop a worker in a thread, and let what is slow go on; it ends."""
    thread = threading.Thread(target=worker.stop)
    thread.start()
    slow.released.set()
    thread.join(LIMIT_S)
    assert not thread.is_alive()


def said(caplog):
    """What workers have logged; threads of other tests may still log, too."""
    return [each for each in caplog.records if each.name == 'novasched.process.workers']


@pytest.mark.parametrize(
    'problem',
    [
        errors.ServiceTooOld(74, 75),
        errors.StoreFailed('nova at db1', 'gone'),
        cfg.ConfigFileValueError('wrong'),
        oslo_messaging.MessagingException('no broker'),
    ],
)
@pytest.mark.parametrize('step', ['made', 'started'])
def test_a_worker_that_cannot_start_says_one_line_and_exits(
    told, caplog, problem, step
):
    def make():
        if step == 'made':
            raise problem
        return Part(told, fails_at='start', problem=problem)

    with pytest.raises(SystemExit) as raised:
        working(make).start()
    assert raised.value.code == 1
    (line,) = said(caplog)
    assert (line.levelno, line.exc_info) == (logging.CRITICAL, None)
    assert line.getMessage() == f'nova-scheduler: {problem}'


def test_a_worker_stops_its_scheduler_and_then_its_wait_ends(told):
    worker = working(lambda: Part(told))
    worker.start()
    worker.stop()
    worker.wait()
    assert told == ['scheduler.start', 'scheduler.stop']


def test_a_worker_may_stop_before_it_has_started(told):
    worker = working(lambda: Part(told))
    worker.stop()
    worker.wait()
    worker.start()
    assert told == ['scheduler.start', 'scheduler.stop']


def test_the_new_scheduler_serves_before_the_old_one_stops(told):
    made = Part(told, 'old'), Part(told, 'new')
    worker = reloading(*made, reread=lambda: told.append('reread'))
    eventually(lambda: 'old.stop' in told)
    assert told == ['old.start', 'reread', 'new.start', 'old.stop']
    worker.stop()
    assert told[-1] == 'new.stop'


def test_parent_process_only_rereads_the_configuration(told):
    working(lambda: Part(told), lambda: told.append('reread')).reset()
    assert told == ['reread']


def test_invalid_configuration_changes_nothing(told, caplog):
    def reread():
        told.append('reread')
        raise errors.FilterNotFound(['Nosuch'])

    reloading(Part(told), reread=reread).stop()
    assert told == ['scheduler.start', 'reread', 'scheduler.stop']
    (line,) = said(caplog)
    assert line.getMessage().startswith('Reloading failed, all goes on as it was: ')


@pytest.mark.parametrize('step', ['made', 'started'])
def test_a_scheduler_that_cannot_start_leaves_the_old_one_in_service(
    told, caplog, step
):
    problem = errors.StoreFailed('nova at db1', 'gone')
    made = [Part(told, 'old'), Part(told, 'new', 'start', problem)]

    def make():
        if step == 'made' and len(made) == 1:
            raise problem
        return made.pop(0)

    worker = working(make)
    worker.start()
    worker.reset()
    worker.stop()
    assert told[0] == 'old.start'
    assert told[-1] == 'old.stop'
    assert [each.getMessage() for each in said(caplog)] == [
        f'Reloading failed, the scheduler goes on as it was: {problem}'
    ]


def test_a_defect_while_reloading_leaves_the_old_one_in_service(told, caplog):
    broken = Part(told, 'broken', 'start', LookupError('a defect'))
    worker = reloading(Part(told), broken)
    worker._reloads[0].join(LIMIT_S)
    assert [each.getMessage() for each in said(caplog)] == [
        'Reloading failed by a defect: a defect'
    ]
    assert told == ['scheduler.start', 'broken.start']
    worker.stop()


def test_signals_in_a_row_are_one_more_reload(told):
    first, slow = Part(told, 'first'), Slow(told, 'slow', 'start')
    worker = reloading(first, slow, Part(told, 'last'))
    assert slow.begun.wait(LIMIT_S)
    for _ in range(5):
        worker.reset()
    slow.released.set()
    eventually(lambda: 'slow.stop' in told)
    worker.stop()
    assert sorted(told) == [
        f'{name}.{step}'
        for name in ('first', 'last', 'slow')
        for step in ('start', 'stop')
    ]


def test_a_stop_waits_for_the_scheduler_of_before(told):
    slow = Slow(told, 'slow', 'stop')
    worker = reloading(slow, Part(told, 'new'))
    assert slow.begun.wait(LIMIT_S)
    stopping(worker, slow)
    assert sorted(told[-2:]) == ['new.stop', 'slow.stop']


def test_stop_waits_for_requests_of_before_a_reload_as_long_as_for_others(told):
    slow = Slow(told, 'slow', 'stop')
    worker = reloading(slow, Part(told, 'new'), drain_s=lambda: 0.01)
    assert slow.begun.wait(LIMIT_S)
    worker.stop()
    assert told[-1] == 'new.stop'
    slow.released.set()


def test_a_reload_that_comes_after_the_stop_begins_nothing(told):
    made = lives(Part(told, 'old'), Part(told, 'new'))
    worker = working(made, lambda: told.append('reread'))
    worker.start()
    worker.stop()
    worker.reset()
    worker._reloads[0].join(LIMIT_S)
    assert told == ['old.start', 'old.stop']


def test_a_stop_in_the_midst_of_a_reload_stops_both(told):
    old, new = Part(told, 'old'), Slow(told, 'new', 'start')
    worker = reloading(old, new)
    assert new.begun.wait(LIMIT_S)
    stopping(worker, new)
    assert {'old.stop', 'new.stop'} <= set(told)
    worker.wait()


class Answering(Part):
    """A life that has answered three requests when it stops."""

    def stop(self, successor=None):
        return 3


def test_a_worker_announces_its_start_its_reload_and_what_it_has_answered(told):
    new = Answering(told, 'new')
    made = lives(Answering(told, 'old'), new)
    worker = working(made, lines=told)
    worker.start()
    worker.reset()
    worker._reloads[0].join(LIMIT_S)
    worker.stop()
    assert told == ['old.start', 'started', 'new.start', 'reloaded', '6 finished']


def test_parent_process_announces_the_reload(told):
    working(lambda: Part(told), lines=told).reset()
    assert told == ['reloading']

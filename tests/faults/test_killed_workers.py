# SPDX-License-Identifier: Apache-2.0
"""Workers that are killed: no claim stays behind."""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from pathlib import Path

import pytest

from novasched.journal.recovery import Recovery
from novasched.journal.store import FileJournal, Moment
from novasched.objects.context import admin
from novasched.placement.allocations import held_by
from novasched.placement.rollback import claim_recovery
from novasched.ports import Intent
from tests.faults import proxy
from tests.faults.callers import CLAIM, boot, until
from tests.functional.conftest import Host, new_uuids
from tests.live import wire as wire_
from tests.live.servers.process import run
from tests.support.tables.cases import cases

HOSTS = [Host('h1'), Host('h2')]
LONG_S = 600
"""A caller that waits as long lets a machine be slow."""


@pytest.fixture
def made(cloud, url):
    """A cloud whose schedulers serve the broker, one request at a time."""
    return cloud(
        HOSTS,
        DEFAULT={'transport_url': url, 'executor_thread_pool_size': 1},
        # So long a thread tries to answer who is gone.
        oslo_messaging_rabbit={'kombu_missing_consumer_retry_timeout': 1},
    )


def writer_of(path):
    """The process that has a file open."""
    (pid,) = (
        int(process.parent.name)
        for process in Path('/proc').glob('[0-9]*/fd')
        if str(path) in _files(process)
    )
    return pid


def _files(process):
    try:
        return [os.readlink(descriptor) for descriptor in process.iterdir()]
    except OSError:  # it has ended, or is not ours
        return []


@pytest.fixture
def workers(made, daemons):
    return daemons(made)


@pytest.fixture
def without_path(made, daemons):
    """Workers whose configuration does not say where they keep files."""
    return daemons(made, DEFAULT={'state_path': None})


@pytest.mark.scenario('F3', 'I2', 'I4')
def test_a_killed_workers_claim_is_undone_at_the_next_start_if_it_was_not_answered(
    made, connect, workers
):
    killed = workers.start()
    caller = connect(expires_s=LONG_S)
    answered, call = boot(caller)
    assert caller.answers(call)[-1]['failure'] is None
    made.proxy.on('PUT', CLAIM, proxy.late)
    consumer, _ = boot(caller)
    until(lambda: consumer in made.held(), 'the claim')
    workers.kill(killed)
    assert set(made.held()) == {answered, consumer}
    assert workers.journals()
    again = workers.start()
    until(lambda: set(made.held()) == {answered}, 'the claim that was answered alone')
    until(lambda: f'for {consumer} is undone' in again.log, 'a line of the log')
    until(lambda: workers.journals() == [], 'the end of the journal')
    assert set(made.held()) == {answered}


@pytest.mark.scenario('F3', 'I2')
def test_recovery_restores_the_source_of_a_move(made, connect, workers):
    consumer = str(uuid.uuid4())
    made.hold(consumer, h1={'VCPU': 2})
    # The first is refused, as it does not know of the other host.
    made.proxy.on('PUT', CLAIM, proxy.late, nth=2)
    killed = workers.start()
    args = wire_.boot_args([consumer])
    args = wire_.changed(args, 'spec.ignore_hosts', ['h1'])
    connect(expires_s=LONG_S).send(wire_.message(args=args))
    until(lambda: set(made.held()[consumer]) == {'h1', 'h2'}, 'the claim')
    workers.kill(killed)
    workers.start()
    until(lambda: made.amounts(consumer) == {'h1': {'VCPU': 2}}, 'what was before')


def test_placement_may_be_away_when_a_claim_is_to_be_undone(made, connect, workers):
    made.proxy.on('PUT', CLAIM, proxy.late)
    killed = workers.start()
    consumer, _ = boot(connect(expires_s=LONG_S))
    until(lambda: consumer in made.held(), 'the claim')
    workers.kill(killed)
    made.proxy.on('GET', CLAIM, proxy.answers(503), times=2)
    waiting = workers.start()
    until(lambda: 'kept for later' in waiting.log, 'a line of the log')
    assert set(made.held()) == {consumer}
    workers.kill(waiting)
    workers.start()
    until(lambda: made.held() == {}, 'no claim')


@pytest.mark.scenario('F3', 'I2')
def test_a_claim_of_one_killed_worker_is_undone_by_another(made, connect, workers):
    made.proxy.on('PUT', CLAIM, proxy.late)
    daemon = workers.start(workers=2)
    consumer, _ = boot(connect(expires_s=LONG_S))
    until(lambda: consumer in made.held(), 'the claim')
    (journal,) = workers.journals()
    os.kill(writer_of(journal), signal.SIGKILL)
    until(lambda: made.held() == {}, 'no claim')
    assert daemon.poll() is None


def test_a_claim_that_arrives_after_its_worker_is_undone(made, connect, workers):
    made.proxy.on('PUT', CLAIM, proxy.stuck)
    killed = workers.start()
    consumer, _ = boot(connect(expires_s=LONG_S))
    until(lambda: made.proxy.asked('PUT', consumer), 'the claim on its way')
    workers.kill(killed)
    workers.start()
    until(lambda: made.proxy.asked('GET', consumer), 'a look at the claim')
    assert made.held() == {}
    assert workers.journals()
    made.proxy.release()
    until(lambda: made.proxy.asked('PUT', consumer)[1:], 'the end of the claim')
    until(lambda: workers.journals() == [], 'the end of the journal')
    assert made.held() == {}


class Uptime:
    """The time since the start of the machine; tests let it pass."""

    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return Moment('boot', self.seconds)


@cases(
    'looks, named',
    ('another worker lives', [2, 27, 120], False),
    ('all workers were dead meanwhile', [70, 120], True),
)
@cases(
    'before',
    ('of a server that held nothing', False),
    ('of a server that held something', True),
)
@pytest.mark.scenario('F3', 'I4')
def test_a_move_that_is_made_again_later_stays(
    cloud, tmp_path, caplog, before, looks, named
):
    """A worker is killed before its claim leaves. Its caller gives up after a minute,
    the move is made again, and placement cannot tell its claim from the first."""
    made = cloud([Host('h1', disk_gb=0), Host('h2', disk_gb=0)])
    server, on, uptime = new_uuids()[0], {'VCPU': 1, 'MEMORY_MB': 512}, Uptime()
    if before:
        made.hold(server, h1=on)
    directory = tmp_path / 'killed'
    killed = FileJournal(str(directory), uptime)
    claim = Intent(
        'req-1', server, 'project', {made.hosts['h2'].uuid: on}, undo_within_s=30.0
    )
    (entry,) = killed.intend([claim])
    if before:
        held = held_by(made.adapter, admin(), server)
        killed.held(server, held.body(), held.generation)
    entry.file.close()
    alive = FileJournal(str(directory), uptime)
    recovery = Recovery(alive, claim_recovery(made.adapter))
    started, asked_again = uptime.seconds, False
    for seconds in looks:
        if seconds > 65 and not asked_again:
            args = {'ignore_hosts': ['h1'], 'root_gb': 0}
            assert made.ask(made.compose(), [server], **args) == [['h2']]
            asked_again = True
        uptime.seconds = started + seconds
        recovery.undo_left_claims()
        assert bool(list(directory.iterdir())) == (seconds < 27)
    assert made.amounts(server) == {'h2': on, **({'h1': on} if before else {})}
    said = [one for one in caplog.records if one.name == Recovery.__module__]
    said = [one.getMessage() for one in said if one.levelname == 'WARNING']
    assert any('may be left behind' in line for line in said) == named


class SmallDisk:
    """A disk of a few pages; needs root."""

    def __init__(self, path):
        self.path = path
        path.mkdir()
        run(['mount', '-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', path])

    def fill(self):
        with contextlib.suppress(OSError), (self.path / 'full').open('wb', 0) as file:
            while True:
                file.write(bytes(4096))

    def clear(self):
        (self.path / 'full').unlink()

    def close(self):
        run(['umount', '-l', self.path])


@pytest.fixture
def small_disk(tmp_path):
    try:
        disk = SmallDisk(tmp_path / 'disk')
    except AssertionError as problem:
        pytest.skip(f'no disk can be mounted: {problem}')
    yield disk
    disk.close()


@pytest.mark.scenario('F31', 'I7')
def test_a_full_disk_costs_the_journal_alone(made, connect, small_disk, without_path):
    workers = without_path
    workers.environ['STATE_DIRECTORY'] = str(small_disk.path)
    workers.state = small_disk.path
    small_disk.fill()
    daemon = workers.start()
    caller = connect(expires_s=LONG_S)
    answered, call = boot(caller)
    assert caller.answers(call)[-1]['failure'] is None
    until(lambda: 'cannot be written' in daemon.log, 'a line of the log')
    small_disk.clear()
    made.proxy.on('PUT', CLAIM, proxy.late)
    consumer, _ = boot(caller)
    until(lambda: consumer in made.held(), 'the claim')
    workers.kill(daemon)
    workers.start()
    until(lambda: set(made.held()) == {answered}, 'the claim that was answered alone')

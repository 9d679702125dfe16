# SPDX-License-Identifier: Apache-2.0
"""The services row of a scheduler: made once, kept fresh, missed once."""

import threading

import pytest

from novasched import errors
from novasched.cluster.heartbeat import Heartbeat
from tests.support.databases.fake_databases import service


class FakeServiceStore:
    """Keeps one row; fails as often as it is told to."""

    def __init__(self, created=True, report_count=0):
        self.created = created
        self.report_count = report_count
        self.beats = []
        self.failing = 0
        self.gone = False
        self.beaten = threading.Event()

    def register(self, host, binary, topic, version):
        given = {'id': 7, 'binary': binary, 'topic': topic, 'version': version}
        row = service(host)._replace(report_count=self.report_count, **given)
        return row, self.created

    def beat(self, service_id, report_count):
        self.beaten.set()
        if self.failing:
            self.failing -= 1
            raise errors.StoreFailed('nova at db1', 'gone')
        self.beats.append((service_id, report_count))
        return not self.gone


@pytest.mark.parametrize('created', [True, False])
def test_new_services_row_is_notified(created):
    told = []
    Heartbeat(FakeServiceStore(created), 'me', 0, told.append).start()
    assert [(r.host, r.binary, r.topic, r.version) for r in told] == (
        [('me', 'nova-scheduler', 'scheduler', 74)] if created else []
    )


def test_beats_count_on_from_the_row():
    store = FakeServiceStore(report_count=40)
    heart = Heartbeat(store, 'me', 0)
    heart.start()
    heart.beat()
    heart.beat()
    assert store.beats == [(7, 41), (7, 42)]


def test_failures_are_logged_once_and_so_is_their_end(caplog):
    caplog.set_level('INFO')
    store = FakeServiceStore()
    heart = Heartbeat(store, 'me', 0)
    heart.start()
    store.failing = 2
    for _ in range(4):
        heart.beat()
    assert caplog.messages == [
        'Lost connection for reporting service status: nova at db1 could not be '
        'asked: gone',
        'Recovered connection for reporting service status.',
    ]


def test_missing_services_row_is_logged(caplog):
    store = FakeServiceStore()
    heart = Heartbeat(store, 'me', 0)
    heart.start()
    store.gone = True
    heart.beat()
    assert 'on host me is gone' in caplog.text


def test_it_beats_by_itself_until_it_is_stopped():
    store = FakeServiceStore()
    heart = Heartbeat(store, 'me', 0.01)
    heart.start()
    assert store.beaten.wait(20)
    heart.stop()


def test_it_beats_on_after_a_defect_of_a_driver(caplog):
    store = FakeServiceStore()
    tries, enough = [], threading.Event()

    def break_down(service_id, report_count):
        tries.append(report_count)
        if len(tries) > 3:
            enough.set()
        raise AssertionError('Protocol error, expecting EOF')

    store.beat = break_down
    heart = Heartbeat(store, 'me', 0.01)
    heart.start()
    assert enough.wait(20)
    heart.stop()
    (record,) = [r for r in caplog.records if 'Protocol error' in r.getMessage()]
    assert record.exc_info


def test_the_version_of_the_release_is_written_and_raised():
    written = []

    class Store(FakeServiceStore):
        def register(self, host, binary, topic, version):
            written.append(version)
            return super().register(host, binary, topic, version)

    heart = Heartbeat(Store(), 'me', 0, version=67)
    heart.start()
    heart.follow(68)
    assert written == [67, 68]

# SPDX-License-Identifier: Apache-2.0
"""The release of a cloud, from the rows of its services."""

from __future__ import annotations

import datetime
from types import SimpleNamespace

import pytest

from novasched import errors
from novasched.app.release import follow_tasks
from novasched.cluster.release import KnownRelease, find
from novasched.manager.manager import SchedulerManager
from novasched.releases import NEWEST, named
from tests.support.clouds.configuration import make_conf
from tests.support.databases.fake_databases import service
from tests.support.tables.cases import cases

NOW = datetime.datetime(2026, 11, 1, 12)  # noqa: DTZ001
LONG_AGO = NOW - datetime.timedelta(hours=1)
CONDUCTOR, API, COMPUTE = 'nova-conductor', 'nova-osapi_compute', 'nova-compute'


class Clock:
    def utcnow(self):
        return NOW


class Directory:
    """Rows of services: (binary, version, whether it is up, forced down)."""

    def __init__(self, *rows):
        self.rows = list(rows)

    def of_program(self, binary):
        return [
            service(f'{name}-{number}')._replace(
                binary=name,
                version=version,
                last_seen_up=NOW if up else LONG_AGO,
                forced_down=bool(forced),
            )
            for number, (name, version, up, *forced) in enumerate(self.rows)
            if name == binary
        ]


def found(*rows, **options):
    conf = make_conf()
    for name, value in options.items():
        conf.set_override(name, value, 'novasched')
    return find(conf, Directory(*rows), Clock())


@cases('rows, number, how',
    ('no services', [], 34, 'no service of nova'),
    ('a conductor', [(CONDUCTOR, 68, True)], 31,
     'nova-conductor on nova-conductor-0 has service version 68'),
    ('the newest that is up',
     [(CONDUCTOR, 68, True), (CONDUCTOR, 70, True), (CONDUCTOR, 74, False)], 32, '70'),
    ('one that is forced down is not', [(CONDUCTOR, 67, True),
                                        (CONDUCTOR, 74, True, True)], 29, '67'),
    ('the newest of all where none is up',
     [(CONDUCTOR, 68, False), (CONDUCTOR, 70, False)], 32, '70'),
    ('computes and schedulers lag',
     [(CONDUCTOR, 72, True), (COMPUTE, 68, True), ('nova-scheduler', 74, True)], 33,
     '72'),
    ('the API where there is no conductor', [(API, 70, False), (COMPUTE, 74, True)],
     32, 'nova-osapi_compute'),
    ('computes alone', [(COMPUTE, 67, True)], 29, 'nova-compute'),
    ('a row without a version', [(CONDUCTOR, 0, True)], 34, 'no service of nova'),
)  # fmt: skip
def test_the_newest_conductor_decides(rows, number, how):
    release, said, warning = found(*rows)
    assert (release.number, warning) == (number, '')
    assert how in said


def test_a_newer_nova_is_served_as_the_newest():
    release, _, warning = found((CONDUCTOR, 76, True))
    assert release is NEWEST
    assert 'newer than nova 34 (2026.2)' in warning


def test_an_older_nova_is_refused_by_name():
    with pytest.raises(errors.OptionError) as refused:
        found((CONDUCTOR, 66, True))
    assert str(refused.value) == (
        '[novasched] nova_release: nova-conductor on nova-conductor-0 has service '
        'version 66, which is older than nova 29 (2024.1). Nova 29 (2024.1) to 34 '
        '(2026.2) are served: upgrade nova, or name one of them here if the row is a '
        'mistake.'
    )


@cases('name, rows, warned',
    ('as it is', '29', [(CONDUCTOR, 67, True)], ''),
    ('what cannot be told', '2024.2', [(CONDUCTOR, 67, True)], ''),
    ('nothing to compare with', '31', [], ''),
    ('otherwise', '31', [(CONDUCTOR, 67, True)], 'say nova 29 (2024.1)'),
    ('too old', '29', [(CONDUCTOR, 66, True)], 'older than nova 29'),
)  # fmt: skip
def test_an_option_pins_it(name, rows, warned):
    release, how, warning = found(*rows, nova_release=name)
    assert release is named(name)
    assert how == '[novasched] nova_release says so'
    assert warned in warning
    assert bool(warning) == bool(warned)


def test_without_rows_of_services_it_is_the_newest():
    assert find(make_conf(), None, Clock()).release is NEWEST


@pytest.fixture
def cloud():
    """A cloud of 31, the look at it, and what followed it."""
    directory, followed = Directory((CONDUCTOR, 68, True)), []
    conf = make_conf()
    conf.set_override('connection', 'sqlite://', 'database')
    now = find(conf, directory, Clock())
    attempts = SimpleNamespace(view=None, copy=None)
    manager = SchedulerManager(
        attempts, None, now.release, lambda _: attempts, on_followed=followed.append
    )
    ((_, look),) = follow_tasks(conf, now, directory, Clock(), manager, None)
    return directory, look, followed


def test_an_upgrade_is_followed_once(cloud, caplog):
    caplog.set_level('INFO')
    directory, look, followed = cloud
    look()
    directory.rows.append((CONDUCTOR, 72, True))
    look()
    look()
    assert [each.number for each in followed] == [33]
    assert [record.getMessage() for record in caplog.records] == [
        'Nova was upgraded from 31 (2025.1) to 33 (2026.1): nova-conductor on '
        'nova-conductor-1 has service version 72'
    ]


def test_an_older_conductor_is_not_followed(cloud):
    directory, look, followed = cloud
    directory.rows[:] = [(CONDUCTOR, 67, True)]
    look()
    assert followed == []


def test_learned_release_outlives_a_reload():
    known, row = KnownRelease(), (CONDUCTOR, 67, True)
    assert known.at_least(found(row)).release.number == 29
    known.learn(named('30'))
    assert known.at_least(found(row)).release.number == 30
    assert known.at_least(found(row, nova_release='29')).release.number == 29

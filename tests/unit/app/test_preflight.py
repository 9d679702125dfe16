# SPDX-License-Identifier: Apache-2.0
"""What keeps the daemon from starting is named, with what to do about it."""

from __future__ import annotations

import re
import threading

import pytest
import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from novasched import errors
from novasched.app import preflight
from novasched.cluster.release import FoundRelease
from novasched.db import engines, tables
from novasched.objects.base import NovaObject  # noqa: F401  no warning at first use
from novasched.releases import NEWEST
from tests.support.databases import databases
from tests.support.tables.cases import cases

PLACEMENT = """
[placement]
auth_type = none
endpoint = http://127.0.0.1:1/
endpoint_override = http://127.0.0.1:1/
"""


@pytest.fixture
def configure(tmp_path, logging_as_before):
    """Read a configuration: sections as text, after a cloud that would do."""

    def run(text=''):
        path = tmp_path / 'nova.conf'
        path.write_text(
            f'[DEFAULT]\ntransport_url = fake://\n'
            f'[api_database]\nconnection = sqlite:///{tmp_path}/api\n'
            f'[database]\nconnection = sqlite:///{tmp_path}/cell0\nmax_retries = 0\n'
            f'{PLACEMENT}{text}'
        )
        conf = cfg.ConfigOpts()
        return preflight.configure(conf, ['--config-file', str(path)])

    yield run
    log._loggers.clear()


@pytest.fixture
def cloud(configure):
    """A cloud whose only compute has a given version."""
    conf = configure()
    opened = [engines.api_engine(conf), engines.main_engine(conf)]
    made = databases.Databases(*opened)
    made.create_tables()

    def add(version):
        url = conf.database.connection
        mapping = databases.cell_mapping(database_connection=url)
        made.add(tables.cell_mappings, mapping)
        made.add(tables.services, databases.service(version=version))
        return conf

    yield add
    for engine in opened:
        engine.dispose()


def test_a_cloud_that_would_do_passes_and_placement_may_be_away(cloud, caplog):
    conf = cloud(74)
    preflight.check(conf)
    assert 'Unable to initialize placement client' in caplog.text


def with_conductor(conf, version):
    engine = engines.main_engine(conf)
    row = databases.service(host='c1', binary='nova-conductor', version=version)
    with engine.begin() as connection:
        connection.execute(sa.insert(tables.services), row)
    engine.dispose()


@cases(
    'conductor, compute, oldest',
    ('29 with computes of 2023.1', 67, 66, None),
    ('29 with older ones', 67, 65, 66),
    ('31 with computes of 29', 68, 66, None),
    ('32 with computes of 31', 70, 68, None),
    ('32 with computes of 30', 70, 67, 68),
    ('33 with computes of 31, while it is upgraded', 71, 68, None),
    ('34 with computes of 33', 74, 72, None),
    ('34 with computes of 32', 74, 70, 72),
)
def test_oldest_accepted_compute_follows_the_release(cloud, conductor, compute, oldest):
    conf = cloud(compute)
    with_conductor(conf, conductor)
    if oldest is None:
        preflight.check(conf)
        return
    with pytest.raises(errors.TooOldComputeService) as refused:
        preflight.check(conf)
    assert refused.value.oldest == oldest
    assert f'nova-conductor on c1 has service version {conductor}' in str(refused.value)


def test_a_pin_that_is_not_what_is_found_is_named(cloud, caplog):
    conf = cloud(74)
    conf.set_override('nova_release', '33', 'novasched')
    preflight.check(conf)
    assert 'nova_release is 33 (2026.1), but the services say nova 34' in caplog.text


def test_older_computes_are_tolerated_where_the_operator_says_so(cloud, caplog):
    conf = cloud(70)
    conf.set_override('nova_release', '34', 'novasched')
    option = 'disable_compute_service_check_for_ffu'
    conf.set_override(option, True, 'workarounds')
    preflight.check(conf)
    assert 'minimum compute service level' in caplog.text


@pytest.mark.parametrize(
    ('text', 'option', 'allowed'),
    [
        (
            '[scheduler]\nworkers = many\n',
            '[scheduler] workers',
            'a whole number of at least 0',
        ),
        (
            '[scheduler]\nmax_attempts = 0\n',
            '[scheduler] max_attempts',
            'a whole number of at least 1',
        ),
        (
            '[oslo_messaging_rabbit]\nssl = perhaps\n',
            '[oslo_messaging_rabbit] ssl',
            'true or false',
        ),
        ('[database]\nmax_retries = x\n', '[database] max_retries', 'a whole number'),
        (
            '[novasched]\ncandidates = miror\n',
            '[novasched] candidates',
            'one of auto, mirror, placement',
        ),
        (
            '[filter_scheduler]\nhost_subset_size =\n',
            '[filter_scheduler] host_subset_size',
            'a whole number of at least 1',
        ),
    ],
)
def test_a_wrong_value_is_named_before_anything_is_tried(
    configure, tmp_path, text, option, allowed
):
    with pytest.raises(errors.OptionError) as raised:
        configure(text)
    place = f'{tmp_path}/nova.conf, line 14: '
    assert str(raised.value).startswith(f'{option}: {place}')
    assert str(raised.value).endswith(f'. Write {allowed}.')
    assert not {'\n', 'LocationInfo'} & set(re.split(r'( |\W)', str(raised.value)))


@cases(
    ('text', 'error', 'words'),
    (
        'a filter',
        '[filter_scheduler]\nenabled_filters = Riddle\n',
        errors.OptionError,
        r'enabled_filters: Scheduler Host Filter Riddle could not be found\. Name',
    ),
    (
        'a filter that is misspelt',
        '[filter_scheduler]\nenabled_filters = ComputFilter\n',
        errors.OptionError,
        r'ComputFilter could not be found. Did you mean ComputeFilter\? Name only',
    ),
    (
        'a weigher that is misspelt',
        '[filter_scheduler]\nweight_classes = nova.scheduler.weights.RAMWeigh\n',
        errors.OptionError,
        r'RAMWeigh could not be found: .* Did you mean RAMWeigher\? Name only',
    ),
    (
        'a driver that is misspelt',
        '[scheduler]\ndriver = filter_schedular\n',
        errors.OptionError,
        r'called filter_schedular. Did you mean filter_scheduler\? Set it',
    ),
    (
        'a weigher',
        '[filter_scheduler]\nweight_classes = riddle.Weigher\n',
        errors.OptionError,
        'weight_classes: Class riddle.Weigher could not be found: ModuleNotFound',
    ),
    (
        'a driver',
        '[scheduler]\ndriver = riddle\n',
        errors.OptionError,
        r'\[scheduler\] driver: no driver is called riddle',
    ),
    (
        'a way to be alive',
        '[DEFAULT]\nservicegroup_driver = mc\n',
        errors.OptionError,
        r'\[cache\] enabled: servicegroup_driver = mc needs a cache',
    ),
    (
        'a kind of broker',
        '[DEFAULT]\ntransport_url = riddle://\n',
        errors.OptionError,
        r'\[DEFAULT\] transport_url: ',
    ),
    (
        'a kind of database',
        '[api_database]\nconnection = riddle://\n',
        errors.OptionError,
        r'\[api_database\] connection: ',
    ),
)
def test_unknown_plugin_or_option_value_is_named(configure, cloud, text, error, words):
    with pytest.raises(error, match=words):
        preflight.check(configure(text))


@cases(
    'made, group, command',
    ('both', (), 'database', 'db sync'),
    ('the API', ('database',), 'api_database', 'api_db sync'),
)
def test_a_database_without_tables_is_named(configure, made, group, command):
    conf = configure()
    for name in made:
        engine = sa.create_engine(conf[name].connection)
        tables.services.create(engine)
        engine.dispose()
    with pytest.raises(errors.OptionError, match=rf'{group}\] connection: ') as raised:
        preflight.check(conf)
    assert str(raised.value).endswith(f'Make its tables with nova-manage {command}.')


def test_a_newer_scheduler_in_the_cloud_is_found_before_the_fork(cloud):
    conf = cloud(74)
    engine = engines.main_engine(conf)
    newer = databases.service(host='s', binary='nova-scheduler', version=75)
    databases.Databases(engine, engine).add(tables.services, newer)
    engine.dispose()
    with pytest.raises(errors.ServiceTooOld, match='v75'):
        preflight.check(conf)


def test_no_thread_is_left_when_the_workers_are_forked(cloud):
    before = set(threading.enumerate())
    preflight.check(cloud(74))
    assert set(threading.enumerate()) <= before


def test_options_that_are_not_served_are_warned_of(cloud, caplog):
    conf = cloud(74)
    conf.set_override('host_manager', 'ironic_host_manager', 'scheduler')
    preflight.check(conf)
    said = '[scheduler] host_manager is ironic_host_manager, which is not needed today'
    assert said in caplog.text


def test_cloud_without_computes_passes():
    preflight.check_compute_version(0, False, FoundRelease(NEWEST, 'so'))


def test_a_filter_of_old_is_named_once(cloud, caplog):
    conf = cloud(74)
    conf.set_override('enabled_filters', ['RamFilter', 'RamFilter'], 'filter_scheduler')
    preflight.check(conf)
    told = [r.getMessage() for r in caplog.records if 'RamFilter' in r.getMessage()]
    assert len(told) == 1
    assert told[0].startswith('The RamFilter is deprecated since the 19.0.0 Stein')


@pytest.fixture
def rewrite(configure, tmp_path):
    """Change the file of a configuration, and read it again: `rewrite(text)`."""
    conf, path = configure(), tmp_path / 'nova.conf'
    before = path.read_text()

    def run(text):
        path.write_text(before + text)
        preflight.reread(conf, ['--config-file', str(path)])

    run.conf = conf
    return run


def test_reread_configuration_reaches_all_holders(rewrite):
    rewrite('[filter_scheduler]\nenabled_filters = ComputeFilter\n')
    assert rewrite.conf.filter_scheduler.enabled_filters == ['ComputeFilter']
    rewrite('')
    assert len(rewrite.conf.filter_scheduler.enabled_filters) > 1


@cases(
    ('text', 'problem'),
    ('a file that makes no sense', 'nonsense', errors.OptionError),
    ('a wrong value', '[scheduler]\nmax_attempts = x\n', errors.OptionError),
    (
        'a filter that is not there',
        '[filter_scheduler]\nenabled_filters = Nosuch\n',
        errors.FilterNotFound,
    ),
    (
        'a weigher that is not there',
        '[scheduler]\nmax_attempts = 7\n[filter_scheduler]\n'
        'weight_classes = no.such.Weigher\n',
        errors.ClassNotFound,
    ),
)
def test_invalid_configuration_changes_nothing(rewrite, text, problem):
    with pytest.raises(problem):
        rewrite(text)
    assert rewrite.conf.scheduler.max_attempts == 3
    assert 'Nosuch' not in rewrite.conf.filter_scheduler.enabled_filters

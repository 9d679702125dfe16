# SPDX-License-Identifier: Apache-2.0
"""Names, class paths of nova and other paths of drivers."""

import contextlib
import random
import sys

import pytest

from novasched import errors
from novasched.compat import driver_loading
from novasched.compat.driver_loading import driver_from_conf, periodic_tasks
from novasched.compat.legacy_driver import LegacyDriver
from novasched.drivers import Driver, DriverContext
from novasched.drivers.chance import ChanceScheduler
from novasched.drivers.filter_scheduler import FilterScheduler
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

HERE = __name__


class OwnDriver(Driver):
    """A driver that knows of us; counts how often its tasks run."""

    def __init__(self, parts):
        super().__init__(parts)
        self.contexts = []

    def select_destinations(self, work):
        raise errors.NoValidHost('')

    def run_periodic_tasks(self, context):
        self.contexts.append(context)


class NovaDriver:
    """A driver that does not."""

    def select_destinations(self, context, spec_obj):
        return []


class Broken:
    """A driver that cannot be made."""

    def __init__(self, what):
        self.what = what

    def select_destinations(self, context, spec_obj):
        return []


no_class = object()


@pytest.fixture
def parts():
    return DriverContext(profile=None, view=None, placement=None, rng=random.Random(1))


@pytest.mark.parametrize(
    ('name', 'kind'),
    [
        ('filter_scheduler', FilterScheduler),
        ('nova.scheduler.filter_scheduler.FilterScheduler', FilterScheduler),
        ('chance_scheduler', ChanceScheduler),
        ('nova.scheduler.chance.ChanceScheduler', ChanceScheduler),
        (f'{HERE}.OwnDriver', OwnDriver),
        (f'{HERE}.NovaDriver', LegacyDriver),
        (f'{HERE}:NovaDriver', LegacyDriver),
    ],
)
def test_a_name_leads_to_a_driver(conf, parts, name, kind):
    conf.set_override('driver', name, 'scheduler')
    driver = driver_from_conf(conf, parts)
    assert type(driver) is kind
    assert driver.context is parts


@cases(
    ('name', 'text'),
    (
        'an unknown name',
        'riddle',
        'no driver is called riddle. Set it to one of: '
        'caching_scheduler, chance_scheduler, filter_scheduler.',
    ),
    (
        'a path to nowhere',
        'riddle.of.Sphinx',
        'riddle.of.Sphinx cannot be loaded: ModuleNotFoundError(',
    ),
    ('a class that is not there', f'{HERE}.Riddle', 'Riddle cannot be loaded: '),
    ('no class', f'{HERE}.no_class', 'no_class is no class.'),
    ('one that raises', f'{HERE}.Broken', 'Broken: TypeError('),
)
def test_invalid_driver_is_named(conf, parts, name, text):
    conf.set_override('driver', name, 'scheduler')
    with pytest.raises(errors.OptionError) as raised:
        driver_from_conf(conf, parts)
    assert str(raised.value).startswith('[scheduler] driver: ')
    assert text in str(raised.value)


@contextlib.contextmanager
def found_in(path):
    """Let installed things be found in one more place."""
    sys.path.append(path)
    yield
    sys.path.remove(path)


def test_names_that_drivers_for_nova_have_installed_count(conf, parts, tmp_path):
    installed = tmp_path / 'riddle-1.dist-info'
    installed.mkdir()
    (installed / 'METADATA').write_text('Name: riddle\nVersion: 1\n')
    text = f'[nova.scheduler.driver]\nriddle = {HERE}:NovaDriver\n'
    (installed / 'entry_points.txt').write_text(text)
    conf.set_override('driver', 'riddle', 'scheduler')
    with found_in(str(tmp_path)):
        assert type(driver_from_conf(conf, parts)) is LegacyDriver


def test_a_file_for_filters_is_read_for_the_driver(conf, parts, tmp_path):
    path = tmp_path / 'filters.json'
    path.write_text('{"colour": "red"}')
    conf.set_override('scheduler_json_config_location', str(path))
    driver = driver_from_conf(conf, parts)
    assert type(driver) is driver_loading.WithConfigOptions


@cases(
    'option, seconds',
    ('the seconds that are set', 30, [30]),
    ('0 is what is usual', 0, [60]),
    ('less is never', -1, []),
)
def test_periodic_tasks_run_at_intervals(conf, parts, option, seconds):
    conf.set_override('periodic_task_interval', option, 'scheduler')
    driver = OwnDriver(parts)
    tasks = periodic_tasks(conf, lambda: driver)
    assert [interval_s for interval_s, _ in tasks] == seconds
    for _, run in tasks:
        run()
    assert [context.is_admin for context in driver.contexts] == [True for _ in seconds]


def test_a_driver_need_not_have_any(conf, parts):
    ((_, run),) = periodic_tasks(conf, lambda: FilterScheduler(parts))
    assert run() is None


CACHING = 'caching_scheduler'


@pytest.mark.parametrize(
    ('named', 'candidates', 'max_age_s'),
    [
        (CACHING, 'auto', 60.0),
        ('nova.scheduler.caching_scheduler.CachingScheduler', 'auto', 60.0),
        ('filter_scheduler', 'auto', 1.0),
    ],
)
def test_the_caching_scheduler_decides_from_memory(parts, named, candidates, max_age_s):
    conf = make_conf(scheduler={'driver': named})
    driver_loading.set_defaults(conf)
    assert conf.novasched.candidates == candidates
    assert conf.novasched.host_state_max_age == max_age_s
    assert isinstance(driver_from_conf(conf, parts), FilterScheduler)


def test_options_that_are_set_stay(parts):
    own = {'candidates': 'placement', 'host_state_max_age': 5.0}
    conf = make_conf(scheduler={'driver': CACHING}, novasched=own)
    driver_loading.set_defaults(conf)
    assert conf.novasched.candidates == 'placement'
    assert conf.novasched.host_state_max_age == 5.0

# SPDX-License-Identifier: Apache-2.0
"""``config_options`` of a request, for filters of older releases."""

import json
import random

import pytest

from novasched.compat import driver_loading
from novasched.compat.driver_loading import config_options, with_config_options
from novasched.drivers import DriverContext
from novasched.drivers.filter_scheduler import FilterScheduler
from novasched.objects.context import RequestContext
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.pipeline import Profile
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.clouds.fakes import FakeView, schedule_request
from tests.support.tables.cases import cases

UUIDS = [f'c0000000-0000-4000-8000-00000000000{n}' for n in 'ab']
SAYS = {'racks': ['h2']}


class InRacks(BaseHostFilter):
    """A filter as one for nova 11 would be."""

    def __init__(self):
        self.seen = []

    def host_passes(self, host_state, filter_properties):
        options = filter_properties.get('config_options')
        self.seen.append(json.dumps(options))
        return host_state.host in options['racks']


class Writes(InRacks):
    """Writes to what it reads."""

    def host_passes(self, host_state, filter_properties):
        passes = super().host_passes(host_state, filter_properties)
        filter_properties['config_options']['own'] = 1
        return passes


class Idle(FilterScheduler):
    """A driver without candidates that keeps the contexts of its tasks."""

    USES_ALLOCATION_CANDIDATES = False

    def run_periodic_tasks(self, context):
        self.ran = context


@pytest.fixture
def configure(tmp_path):
    """Make a configuration that names a file with a text, or none."""

    def made(text):
        conf = make_conf()
        path = tmp_path / 'filters.json'
        if text is not None:
            path.write_text(text)
            conf.set_override(driver_loading.JSON_FILE, str(path))
        return conf

    return made


def driver_of(filter_, cls=FilterScheduler):
    view = FakeView(factories.hosts(2))
    return cls(DriverContext(Profile((filter_,), ()), view, None, random.Random(1)))


def ask(driver):
    context = RequestContext(overwrite=False)
    work = schedule_request(context, factories.request(), UUIDS)
    return [
        each[0].service_host for each in driver.select_destinations(work).selections
    ]


def test_each_request_has_what_the_file_says(configure):
    conf, filter_ = configure(json.dumps(SAYS)), InRacks()
    driver = with_config_options(driver_of(filter_), conf)
    assert ask(driver) == ['h2', 'h2']
    assert set(filter_.seen) == {json.dumps(SAYS)}
    assert config_options(conf) == (SAYS, None)


def test_config_options_written_by_a_filter_last_one_request(configure):
    filter_ = Writes()
    driver = with_config_options(driver_of(filter_), configure(json.dumps(SAYS)))
    for _ in range(2):
        filter_.seen.clear()
        ask(driver)
        assert filter_.seen[0] == json.dumps(SAYS)
        assert filter_.seen[-1] == json.dumps({**SAYS, 'own': 1})


def test_the_driver_stays_what_it_is(configure):
    own = driver_of(InRacks(), Idle)
    driver = with_config_options(own, configure(json.dumps(SAYS)))
    assert driver.USES_ALLOCATION_CANDIDATES is False
    driver.run_periodic_tasks('context')
    assert own.ran == 'context'


@cases(
    'text, problem',
    ('no file is named', None, None),
    ('the file says nothing', '{}', None),
    ('nonsense', '{', 'Expecting property name'),
    ('a list', '[1]', 'it has a list in the place of an object'),
)
def test_without_options_the_driver_is_itself(configure, text, problem):
    conf, own = configure(text), driver_of(InRacks())
    assert with_config_options(own, conf) is own
    values, line = config_options(conf)
    assert values == {}
    assert (line is None) is (problem is None)
    if line is not None:
        assert f'filters.json, which cannot be read: {problem}' in line


def test_missing_file_is_a_warning(configure):
    conf = configure('{}')
    conf.set_override(driver_loading.JSON_FILE, '/nowhere/filters.json')
    _, line = config_options(conf)
    assert 'No such file' in line
    assert line.endswith('Filters that look at config_options find it empty.')

# SPDX-License-Identifier: Apache-2.0
"""Which driver chooses the hosts, and what it is given."""

from __future__ import annotations

import random

import pytest
from oslo_config import cfg

from novasched import drivers, errors
from novasched.drivers import Parts, Work, driver_from_conf
from novasched.drivers.filter_scheduler import FilterScheduler
from tests import factories


@pytest.fixture
def parts():
    return Parts(profile=None, view=None, placement=None, rng=random.Random(1))


@pytest.fixture
def conf():
    made = cfg.ConfigOpts()
    for group, listed in drivers.OPTS.items():
        made.register_opts(listed, None if group == 'DEFAULT' else group)
    made([], default_config_files=[], default_config_dirs=[])
    return made


@pytest.mark.parametrize(
    'name',
    ['filter_scheduler', 'nova.scheduler.filter_scheduler.FilterScheduler'],
)
def test_the_filter_scheduler_has_two_names(conf, parts, name):
    conf.set_override('driver', name, 'scheduler')
    driver = driver_from_conf(conf, parts)
    assert type(driver) is FilterScheduler
    assert driver.parts is parts


def test_an_unknown_one_is_named_and_so_are_those_there_are(conf, parts):
    conf.set_override('driver', 'riddle', 'scheduler')
    with pytest.raises(errors.OptionError) as raised:
        driver_from_conf(conf, parts)
    text = str(raised.value)
    assert text.startswith('[scheduler] driver: no driver is called riddle. Set it')
    assert 'filter_scheduler' in text


@pytest.mark.parametrize(
    ('uuids', 'required'),
    [
        pytest.param(['a'], 1, id='the instances that are named count'),
        pytest.param([], 5, id='an empty list counts for nothing'),
        pytest.param(None, 5, id='none are named'),
    ],
)
def test_how_many_hosts_are_required(uuids, required):
    request = factories.request(num_instances=5)
    assert Work(None, request, uuids, None, None, False).required == required


def test_parts_are_made_of_options(conf):
    conf.set_override('max_attempts', 7, 'scheduler')
    conf.set_override('default_availability_zone', 'here')
    made = Parts.from_conf(conf, None, None, None, random.Random(1), print)
    assert (made.max_attempts, made.default_availability_zone) == (7, 'here')
    assert made.on_decision is print

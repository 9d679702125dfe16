# SPDX-License-Identifier: Apache-2.0
"""What a driver is given."""

import random

from novasched.drivers import DriverContext
from tests.support.clouds import factories
from tests.support.clouds.fakes import schedule_request
from tests.support.tables.cases import cases


@cases(
    'uuids, required',
    ('the instances that are named count', ['a'], 1),
    ('an empty list counts for nothing', [], 5),
    ('none are named', None, 5),
)
def test_how_many_hosts_are_required(uuids, required):
    request = factories.request(num_instances=5)
    assert schedule_request(None, request, uuids).required == required


def test_parts_are_made_of_options(conf):
    conf.set_override('max_attempts', 7, 'scheduler')
    conf.set_override('default_availability_zone', 'here')
    conf.set_override('plugin_time_budget', 3.0, 'novasched')
    made = DriverContext.from_conf(conf, None, None, None, random.Random(1))
    assert (made.max_attempts, made.default_availability_zone) == (7, 'here')
    assert made.watch.budget_s == 3.0
    assert (made.assumed, made.own_alternates) == (None, False)

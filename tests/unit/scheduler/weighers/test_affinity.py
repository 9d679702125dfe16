# SPDX-License-Identifier: Apache-2.0
"""Members of a server group on the hosts, as their final weights."""

import pytest

from novasched.scheduler.pipeline import weigh
from novasched.scheduler.weighers.affinity import (
    ServerGroupSoftAffinityWeigher,
    ServerGroupSoftAntiAffinityWeigher,
)
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

MEMBERS = ['m1', 'm2', 'm3', 'm4', 'm5', 'm6']
ON_HOSTS = [['m1', 'm2', 'x'], ['m3'], ['x', 'y'], ['m4', 'm5', 'm6']]
NEAR, APART = ServerGroupSoftAffinityWeigher(), ServerGroupSoftAntiAffinityWeigher()


@cases(
    'weigher, group, weights',
    ('near', NEAR, factories.group('soft-affinity', MEMBERS), [2 / 3, 1 / 3, 0, 1.0]),
    (
        'apart',
        APART,
        factories.group('soft-anti-affinity', MEMBERS),
        [1 / 3, 2 / 3, 1.0, 0],
    ),
    ('not softly near', NEAR, factories.group('affinity', MEMBERS), [0] * 4),
    ('not softly apart', APART, factories.group('anti-affinity', MEMBERS), [0] * 4),
    ('the opposite', NEAR, factories.group('soft-anti-affinity', MEMBERS), [0] * 4),
    ('no members', NEAR, factories.group('soft-affinity'), [0] * 4),
    ('near, no group', NEAR, None, [0] * 4),
    ('apart, no group', APART, None, [0] * 4),
)
def test_weights(weigher, group, weights):
    hosts = factories.hosts(instances=[dict.fromkeys(uuids) for uuids in ON_HOSTS])
    request = factories.request(instance_group=group)
    assert weigh([weigher], hosts, request).totals.tolist() == weights


@pytest.mark.parametrize(
    'name', ['soft_affinity_weight_multiplier', 'soft_anti_affinity_weight_multiplier']
)
def test_the_options_may_not_be_negative(name):
    conf = make_conf()
    with pytest.raises(ValueError):
        conf.set_override(name, -1.0, 'filter_scheduler')

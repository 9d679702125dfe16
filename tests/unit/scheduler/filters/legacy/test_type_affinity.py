# SPDX-License-Identifier: Apache-2.0
"""Hosts that run instances of one flavor only."""

from __future__ import annotations

import types

import pytest

from novasched.objects.instance import Instance
from novasched.ports import InstanceRow
from novasched.scheduler.filters.legacy.removed import TypeAffinityFilter
from novasched.scheduler.hosts import Member
from novasched.scheduler.reasons import Code
from tests import factories
from tests.verdicts import assert_verdict

FILTER = TypeAffinityFilter()
FLAVOR = factories.request().flavor.id


def of(flavor_id):
    return types.SimpleNamespace(instance_type_id=flavor_id)


@pytest.mark.parametrize(
    ('instances', 'passes'),
    [
        pytest.param([], True, id='empty'),
        pytest.param([of(FLAVOR), of(FLAVOR)], True, id='all of the flavor'),
        pytest.param([of(FLAVOR), of(7)], False, id='one of another'),
        pytest.param([Instance(instance_type_id=FLAVOR)], True, id='as computes tell'),
        pytest.param([Instance(uuid='u')], False, id='it was not told'),
        pytest.param([InstanceRow('u', 'h1')], False, id='a row that does not tell'),
        pytest.param([Member('u', 'h1')], True, id='placed by this request'),
    ],
)
def test_type_affinity(instances, passes):
    by_uuid = {f'u{number}': instance for number, instance in enumerate(instances)}
    hosts = factories.hosts(instances=[by_uuid])
    assert_verdict(FILTER, hosts, factories.request(), passes)


def test_why():
    by_uuid = {'u1': of(FLAVOR), 'u2': of(7), 'u3': of(None)}
    host = factories.hosts(instances=[by_uuid]).state(0)
    reason = FILTER.why(host, factories.request())
    text = 'runs instances of another flavor: u2, u3'
    assert reason == (Code.OTHER_FLAVOR_PRESENT, text)

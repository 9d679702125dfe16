# SPDX-License-Identifier: Apache-2.0
"""Hosts that run instances of one flavor only."""

from __future__ import annotations

import types

from novasched.objects.instance import Instance
from novasched.ports import InstanceRow
from novasched.scheduler.filters.legacy.removed import TypeAffinityFilter
from novasched.scheduler.hosts import Member
from novasched.scheduler.reasons import Code
from tests import factories
from tests.tables import cases
from tests.verdicts import assert_verdict

FILTER = TypeAffinityFilter()
FLAVOR = factories.request().flavor.id


def of(flavor_id):
    return types.SimpleNamespace(instance_type_id=flavor_id)


@cases(
    'instances, passes',
    ('empty', [], True),
    ('all of the flavor', [of(FLAVOR), of(FLAVOR)], True),
    ('one of another', [of(FLAVOR), of(7)], False),
    ('as computes tell', [Instance(instance_type_id=FLAVOR)], True),
    ('it was not told', [Instance(uuid='u')], False),
    ('a row that does not tell', [InstanceRow('u', 'h1')], False),
    ('placed by this request', [Member('u', 'h1')], True),
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

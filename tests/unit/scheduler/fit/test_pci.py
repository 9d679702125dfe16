# SPDX-License-Identifier: Apache-2.0
"""PCI requests and the pools that match them."""

from __future__ import annotations

import pytest

from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched.scheduler.fit.pci import (
    DeviceRequest,
    Pool,
    PoolMismatch,
    enough_devices,
    providers_of,
    requests_of,
)

NIC = {'vendor_id': '8086', 'product_id': '1520'}


def pool(count=1, numa_node=None, rp_uuid=None, **tags):
    return Pool(frozenset({**NIC, **tags}.items()), numa_node, count, rp_uuid)


def asked(*alternatives, count=1, **fields):
    made = InstancePCIRequest(count=count, spec=list(alternatives), **fields)
    (request,) = requests_of(InstancePCIRequests(requests=[made]))
    return request


PF, VF, VDPA = ({'dev_type': kind} for kind in ('type-PF', 'type-VF', 'vdpa'))
REMOTE = {'remote_managed': 'true'}


@pytest.mark.parametrize(
    ('tags', 'alternatives', 'lost'),
    [
        pytest.param({}, [NIC], None, id='the same'),
        pytest.param({}, [{}], None, id='nothing in particular'),
        pytest.param({}, [], PoolMismatch.SPEC, id='no alternative'),
        pytest.param({}, [{**NIC, 'product_id': 'x'}], PoolMismatch.SPEC, id='another'),
        pytest.param({}, [{'product_id': 'x'}, NIC], None, id='one of two'),
        pytest.param({'net': 'PhysNet1'}, [{'net': 'physnet1'}], None, id='case'),
        pytest.param({}, [{'net': 'physnet1'}], PoolMismatch.SPEC, id='no such tag'),
        pytest.param({}, [{'net': None}], None, id='null matches a tag not there'),
        pytest.param({'net': None}, [{'net': None}], None, id='null matches null'),
        pytest.param(
            {'net': 'a'}, [{'net': None}], PoolMismatch.SPEC, id='null and text'
        ),
        pytest.param(
            {},
            [{'resource_class': 'X', 'traits': 'Y', 'rp_uuid': 'z', 'rp_uuids': 'z'}],
            None,
            id='what placement looks at',
        ),
        pytest.param({}, [{'numa_node': None}], None, id='no node'),
        pytest.param({}, [{'numa_node': '0'}], PoolMismatch.SPEC, id='text is no node'),
        pytest.param({}, [{'count': '1'}], PoolMismatch.SPEC, id='text is no count'),
        pytest.param(PF, [NIC], PoolMismatch.FUNCTION, id='a function not asked for'),
        pytest.param(PF, [NIC, PF], None, id='a function asked for'),
        pytest.param(PF, [VF], PoolMismatch.SPEC, id='a function for a virtual one'),
        pytest.param(
            PF,
            [{'dev_type': 'TYPE-pf'}],
            PoolMismatch.FUNCTION,
            id='asked for in other letters',
        ),
        pytest.param(VF, [NIC], None, id='a virtual function'),
        pytest.param(VDPA, [NIC], PoolMismatch.VDPA, id='vDPA not asked for'),
        pytest.param(VDPA, [VDPA], None, id='vDPA asked for'),
        pytest.param(REMOTE, [NIC], PoolMismatch.REMOTE, id='remote not asked for'),
        pytest.param(
            {'remote_managed': ' Yes '}, [NIC], PoolMismatch.REMOTE, id='yes is true'
        ),
        pytest.param({'remote_managed': 'tru'}, [NIC], None, id='tru is not'),
        pytest.param({'remote_managed': None}, [NIC], None, id='null is not'),
        pytest.param(
            {'remote_managed': 'True'}, [REMOTE], None, id='remote asked for, case'
        ),
        pytest.param(
            {'live_migratable': 'true'}, [{'live_migratable': 'true'}], None, id='live'
        ),
        pytest.param(
            {}, [{'live_migratable': 'true'}], PoolMismatch.SPEC, id='not live'
        ),
        pytest.param(
            {'live_migratable': 'True'},
            [{'live_migratable': 'true'}],
            PoolMismatch.MIGRATION,
            id='live in other letters',
        ),
        pytest.param(
            {'live_migratable': 'False'},
            [{'live_migratable': 'false'}],
            PoolMismatch.MIGRATION,
            id='not live in other letters',
        ),
        pytest.param(
            {'live_migratable': 'true'},
            [{'live_migratable': 'true'}, NIC],
            None,
            id='live or any',
        ),
    ],
)
def test_match(tags, alternatives, lost):
    request = asked(*alternatives)
    assert request.mismatch(pool(**tags)) is lost
    assert request.mismatch(pool(count=7, **tags)) is lost


def test_pools_may_differ_in_the_node_alone():
    request = asked({'numa_node': None})
    lost = [request.mismatch(pool(numa_node=node)) for node in (None, 0, None)]
    assert lost == [None, PoolMismatch.SPEC, None]


def test_no_requests():
    assert requests_of(None) == ()
    assert requests_of(InstancePCIRequests(requests=[])) == ()


def test_what_a_request_says():
    found = asked(
        {**NIC, 'rp_uuids': 'b,a'},
        {'vendor_id': '10de'},
        count=2,
        alias_name='gpu',
        request_id='R',
        numa_policy='socket',
    )
    assert found == DeviceRequest(
        2,
        (
            frozenset({*NIC.items(), ('rp_uuids', 'b,a')}),
            frozenset({('vendor_id', '10de')}),
        ),
        'gpu',
        'R',
        'socket',
        ('b', 'a'),
    )
    assert str(found) == 'gpu (product_id=1520 vendor_id=8086 or vendor_id=10de)'


def test_what_a_request_leaves_out():
    (found,) = requests_of(InstancePCIRequests(requests=[InstancePCIRequest()]))
    assert found == DeviceRequest(1, ())
    assert str(found) == 'port (no specification)'
    assert str(asked({})) == 'port (any)'
    assert str(asked({'rp_uuids': 'a'}, request_id='R')) == 'port R (any)'


def test_requests_are_values():
    one, other = asked(NIC), asked(NIC)
    assert one.mismatch(pool()) is None
    assert one == other
    assert len({one, other}) == 1


@pytest.mark.parametrize(
    ('fields', 'mapping', 'providers'),
    [
        pytest.param({}, {'R-0': ['a'], 'R-1': ['a']}, ('a', 'a'), id='one per device'),
        pytest.param({}, {'': ['x'], 'R-0': ['a', 'b']}, ('a',), id='the first'),
        pytest.param({}, {'': ['x'], 'Q-0': ['a']}, (), id='no group: any'),
        pytest.param({}, {'R-0': []}, (), id='a group of nobody'),
        pytest.param({}, {}, ('p',), id='no mapping: the last claim'),
        pytest.param({}, None, ('p',), id='never mapped: the last claim'),
        pytest.param({'request_id': None}, {'R-0': ['a']}, (), id='no id: any'),
        pytest.param({'alias_name': None}, {'R-0': ['a']}, (), id='a port: any'),
        pytest.param({'alias_name': None}, None, (), id='a port, never mapped: any'),
    ],
)
def test_providers(fields, mapping, providers):
    fields = {'alias_name': 'a', 'request_id': 'R', **fields}
    request = asked({**NIC, 'rp_uuids': 'p'}, **fields)
    assert providers_of(request, mapping) == providers


@pytest.mark.parametrize(
    ('pools', 'counts', 'enough'),
    [
        pytest.param([], [], True, id='nothing asked for'),
        pytest.param([], [1], False, id='no pools'),
        pytest.param([pool(1), pool(1, numa_node=3)], [2], True, id='of two pools'),
        pytest.param([pool(1), pool(5, dev_type='vdpa')], [2], False, id='too few'),
        pytest.param([pool(2)], [2, 3], False, id='one of two wants too much'),
        pytest.param([pool(2)], [2, 2], True, id='each alone is fine'),
    ],
)
def test_a_quick_look(pools, counts, enough):
    requests = [asked(NIC, count=count) for count in counts]
    assert enough_devices(tuple(pools), requests) is enough

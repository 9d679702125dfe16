# SPDX-License-Identifier: Apache-2.0
"""PCI requests and the pools that match them."""

from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched.scheduler.fit.pci import (
    DeviceRequest,
    Pool,
    PoolMismatch,
    enough_devices,
    providers_of,
    requests_of,
)
from tests.support.tables.cases import cases

NIC = {'vendor_id': '8086', 'product_id': '1520'}


def pool(count=1, numa_node=None, rp_uuid=None, **tags):
    return Pool(frozenset({**NIC, **tags}.items()), numa_node, count, rp_uuid)


def asked(*alternatives, count=1, **fields):
    made = InstancePCIRequest(count=count, spec=list(alternatives), **fields)
    (request,) = requests_of(InstancePCIRequests(requests=[made]))
    return request


PF, VF, VDPA = ({'dev_type': kind} for kind in ('type-PF', 'type-VF', 'vdpa'))
REMOTE = {'remote_managed': 'true'}
LIVE = {'live_migratable': 'true'}
MAY_NOT = {'live_migratable': 'False'}, [{'live_migratable': 'false'}]
OF_PLACEMENT = dict.fromkeys(('resource_class', 'traits', 'rp_uuid', 'rp_uuids'), 'x')


@cases(
    'tags, alternatives, lost',
    ('the same', {}, [NIC], None),
    ('nothing in particular', {}, [{}], None),
    ('no alternative', {}, [], PoolMismatch.SPEC),
    ('another', {}, [{**NIC, 'product_id': 'x'}], PoolMismatch.SPEC),
    ('one of two', {}, [{'product_id': 'x'}, NIC], None),
    ('case', {'net': 'PhysNet1'}, [{'net': 'physnet1'}], None),
    ('no such tag', {}, [{'net': 'physnet1'}], PoolMismatch.SPEC),
    ('null matches a tag not there', {}, [{'net': None}], None),
    ('null matches null', {'net': None}, [{'net': None}], None),
    ('null and text', {'net': 'a'}, [{'net': None}], PoolMismatch.SPEC),
    ('what placement looks at', {}, [OF_PLACEMENT], None),
    ('no node', {}, [{'numa_node': None}], None),
    ('text is no node', {}, [{'numa_node': '0'}], PoolMismatch.SPEC),
    ('text is no count', {}, [{'count': '1'}], PoolMismatch.SPEC),
    ('a function not asked for', PF, [NIC], PoolMismatch.FUNCTION),
    ('a function asked for', PF, [NIC, PF], None),
    ('a function for a virtual one', PF, [VF], PoolMismatch.SPEC),
    ('in other letters', PF, [{'dev_type': 'TYPE-pf'}], PoolMismatch.FUNCTION),
    ('a virtual function', VF, [NIC], None),
    ('vDPA not asked for', VDPA, [NIC], PoolMismatch.VDPA),
    ('vDPA asked for', VDPA, [VDPA], None),
    ('remote not asked for', REMOTE, [NIC], PoolMismatch.REMOTE),
    ('yes is true', {'remote_managed': ' Yes '}, [NIC], PoolMismatch.REMOTE),
    ('tru is not', {'remote_managed': 'tru'}, [NIC], None),
    ('null is not', {'remote_managed': None}, [NIC], None),
    ('remote asked for, case', {'remote_managed': 'True'}, [REMOTE], None),
    ('live', LIVE, [LIVE], None),
    ('not live', {}, [LIVE], PoolMismatch.SPEC),
    ('other letters', {'live_migratable': 'True'}, [LIVE], PoolMismatch.MIGRATION),
    ('no, in other letters', *MAY_NOT, PoolMismatch.MIGRATION),
    ('live or any', LIVE, [LIVE, NIC], None),
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


def test_device_request_has_all_fields_of_its_demand():
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


def test_incomplete_device_request_has_defaults():
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


@cases(
    'fields, mapping, providers',
    ('one per device', {}, {'R-0': ['a'], 'R-1': ['a']}, ('a', 'a')),
    ('the first', {}, {'': ['x'], 'R-0': ['a', 'b']}, ('a',)),
    ('no group: any', {}, {'': ['x'], 'Q-0': ['a']}, ()),
    ('a group of nobody', {}, {'R-0': []}, ()),
    ('no mapping: the last claim', {}, {}, ('p',)),
    ('never mapped: the last claim', {}, None, ('p',)),
    ('no id: any', {'request_id': None}, {'R-0': ['a']}, ()),
    ('a port: any', {'alias_name': None}, {'R-0': ['a']}, ()),
    ('a port, never mapped: any', {'alias_name': None}, None, ()),
)
def test_providers(fields, mapping, providers):
    fields = {'alias_name': 'a', 'request_id': 'R', **fields}
    request = asked({**NIC, 'rp_uuids': 'p'}, **fields)
    assert providers_of(request, mapping) == providers


@cases(
    'pools, counts, enough',
    ('nothing asked for', [], [], True),
    ('no pools', [], [1], False),
    ('of two pools', [pool(1), pool(1, numa_node=3)], [2], True),
    ('too few', [pool(1), pool(5, dev_type='vdpa')], [2], False),
    ('one of two wants too much', [pool(2)], [2, 3], False),
    ('each alone is fine', [pool(2)], [2, 2], True),
)
def test_a_quick_look(pools, counts, enough):
    requests = [asked(NIC, count=count) for count in counts]
    assert enough_devices(tuple(pools), requests) is enough

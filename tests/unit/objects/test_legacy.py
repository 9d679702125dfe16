# SPDX-License-Identifier: Apache-2.0
"""Requests as dicts, in both directions."""

import copy
import json

import pytest

from novasched import errors
from novasched.objects import base
from novasched.objects.filter_properties import (
    filter_properties_dict,
    request_spec_dict,
)
from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta
from novasched.objects.instance import Instance
from novasched.objects.instance_group import InstanceGroup
from novasched.objects.legacy import from_legacy
from novasched.objects.numa import InstanceNUMATopology
from novasched.objects.request_spec import (
    Destination,
    RequestSpec,
    SchedulerLimits,
    SchedulerRetries,
)
from tests.support.tables.cases import cases

UUID = 'b6c56007-17c7-5950-8ce1-2b1e5c537581'
FLAVOR = Flavor(
    name='m1', vcpus=2, memory_mb=512, root_gb=20, ephemeral_gb=5, extra_specs={}
)
TOPOLOGY = InstanceNUMATopology(cells=[])


@pytest.fixture
def captured(sample):
    def read(name):
        args = sample(f'rpc/{name}.request')['message']['args']
        return args['request_spec'], args['filter_properties']

    return read


def test_a_captured_request_of_dicts(captured, plain):
    asked, wanted = captured('09b-legacy-4.0-dicts')
    spec = from_legacy(copy.deepcopy(asked), wanted)
    properties = asked['instance_properties']
    assert spec.instance_uuid == properties['uuid']
    assert spec.availability_zone == 'az2'
    assert spec.project_id == properties['project_id']
    assert spec.user_id == properties['user_id']
    assert spec.vcpus == 2
    assert spec.flavor.name == 'numa.small'
    assert spec.image.name == 'cirros'
    assert spec.image_properties.get('hw_machine_type') == 'q35'
    for name in ('numa_topology', 'pci_requests'):
        assert plain(getattr(spec, name).obj_to_primitive()) == plain(properties[name])
    assert spec.ignore_hosts == ['cmp-2']
    assert spec.force_hosts is spec.force_nodes is None
    assert spec.retry.num_attempts == 1
    tried = [(node.host, node.hypervisor_hostname) for node in spec.retry.hosts]
    assert tried == [('cmp-2', 'cmp-2.example.org')]
    assert spec.limits.to_dict() == {}
    assert spec.instance_group is None
    assert spec.scheduler_hints == {
        'different_host': wanted['scheduler_hints']['different_host'],
        'query': ['x'],
    }
    assert spec.requested_destination is spec.requested_resources is None
    assert spec.obj_what_changed() == set()


def test_a_captured_request_of_dicts_with_a_group(captured):
    asked, wanted = captured('09-legacy-4.0-with-group')
    group = from_legacy(asked, wanted).instance_group
    assert 'policies' not in group
    assert group.policies == ['anti-affinity']
    assert group.hosts == ['cmp-1']
    assert group.members == wanted['group_members']
    assert group.uuid == wanted['group_uuid']


def test_fields_missing_in_dicts_stay_unset():
    spec = from_legacy(None, {})
    given = {name for name in RequestSpec.fields if name in spec}
    assert given == {
        'num_instances',
        'image',
        'ignore_hosts',
        'force_hosts',
        'force_nodes',
        'requested_destination',
        'requested_resources',
        'retry',
        'limits',
        'instance_group',
        'scheduler_hints',
    }
    assert spec.num_instances == 1
    assert spec.scheduler_hints == {}
    assert spec.limits.to_dict() == {}


def test_null_hints_and_limits_stay_null():
    spec = from_legacy({}, {'scheduler_hints': None, 'limits': None})
    assert spec.scheduler_hints is spec.limits is None


def test_objects_are_kept():
    image, destination = ImageMeta(), Destination(host='h')
    limits, retry, group = SchedulerLimits(vcpu=4), SchedulerRetries(), InstanceGroup()
    spec = from_legacy(
        {
            'num_instances': 2,
            'image': image,
            'instance_type': FLAVOR,
            'instance_properties': Instance(uuid=UUID, numa_topology=TOPOLOGY),
        },
        {
            'requested_destination': destination,
            'limits': limits,
            'retry': retry,
            'instance_group': group,
        },
    )
    assert spec.num_instances == 2
    assert spec.image is image
    assert spec.flavor is FLAVOR
    assert spec.instance_uuid == UUID
    assert spec.numa_topology is TOPOLOGY
    assert spec.project_id is None
    assert spec.requested_destination is destination
    assert spec.limits is limits
    assert spec.retry is retry
    assert spec.instance_group is group


def test_primitives_are_read():
    group = InstanceGroup(policy='affinity').obj_to_primitive()
    spec = from_legacy(
        {'instance_type': FLAVOR.obj_to_primitive()}, {'instance_group': group}
    )
    assert spec.vcpus == 2
    assert spec.instance_group.policy == 'affinity'


@cases(
    'topology, expected',
    ('JSON text', json.dumps(TOPOLOGY.obj_to_primitive()), []),
    ('primitive', TOPOLOGY.obj_to_primitive(), []),
    ('empty text', '', None),
    ('null', None, None),
)
def test_numa_topology(topology, expected):
    found = from_legacy({'instance_properties': {'numa_topology': topology}}, {})
    cells = None if found.numa_topology is None else found.numa_topology.cells
    assert cells == expected


@cases(
    'image, name',
    ('dict', {'name': 'cirros'}, 'cirros'),
    ('primitive', ImageMeta(name='c').obj_to_primitive(), 'c'),
    ('text', 'cirros', None),
    ('null', None, None),
)
def test_image(image, name):
    found = from_legacy({'image': image}, {}).image
    assert (None if found is None else found.name) == name


@cases(
    'retry, expected',
    ('null', None, None),
    ('empty', {}, None),
    ('no hosts: nothing is set', {'num_attempts': 3}, set()),
    ('no attempts', {'hosts': []}, {'hosts'}),
    ('both', {'num_attempts': 3, 'hosts': [['h', 'n']]}, {'num_attempts', 'hosts'}),
)
def test_retry(retry, expected):
    found = from_legacy({}, {'retry': retry}).retry
    given = found if found is None else {name for name in found.fields if name in found}
    assert given == expected


@cases(
    'wanted, policy',
    ('1st', {'group_updated': True, 'group_policies': ['a', 'b']}, 'a'),
    ('set', {'group_updated': True, 'group_policies': {'a'}}, 'a'),
    ('no policy', {'group_updated': True}, None),
)
def test_group(wanted, policy):
    group = from_legacy({}, wanted).instance_group
    assert group.policy == policy
    assert group.hosts == group.members == []
    assert 'uuid' not in group


@pytest.mark.parametrize('updated', [None, False, 1, 'true'])
def test_no_group_unless_it_is_exactly_true(updated):
    wanted = {'group_updated': updated, 'group_policies': ['affinity']}
    assert from_legacy({}, wanted).instance_group is None


@cases('asked, wanted',
    ('text for a dict', 'x', {}),
    ('text for a number', {'num_instances': 'x'}, {}),
    ('a list', {'instance_properties': []}, {}),
    ('text for a flavor', {'instance_type': 'm1'}, {}),
    ('flavor', {'instance_type': {'vcpus': 'x'}}, {}),
    ('broken JSON', {'instance_properties': {'numa_topology': '{'}}, {}),
    ('dict that is no primitive',
     {'instance_properties': {'pci_requests': {'requests': []}}}, {}),
    ('primitive of another class',
     {'instance_properties': {'pci_requests': TOPOLOGY.obj_to_primitive()}}, {}),
    ('object of another class', {'instance_properties': {'pci_requests': TOPOLOGY}},
     {}),
    ('host, no node', {}, {'retry': {'hosts': ['h']}}),
    ('bad host', {}, {'retry': {'hosts': [[{}, 'n']]}}),
    ('bad limit', {}, {'limits': {'vcpu': 'x'}}),
    ('bad hint', {}, {'scheduler_hints': {'a': {}}}),
)  # fmt: skip
def test_bad_dicts_are_refused(asked, wanted):
    with pytest.raises(errors.InvalidRequest):
        from_legacy(asked, wanted)


def test_an_instance_with_an_unreadable_topology_is_refused():
    instance = Instance(uuid=UUID)
    instance.unreadable['numa_topology'] = errors.UnsupportedObject('Sandwich')
    with pytest.raises(errors.UnsupportedObject):
        from_legacy({'instance_properties': instance}, {})


def test_hints_are_wrapped():
    hints = {'a': 'x', 'b': ['x', 'y'], 'c': 1, 'd': None}
    spec = from_legacy({}, {'scheduler_hints': hints})
    assert spec.scheduler_hints == {'a': ['x'], 'b': ['x', 'y'], 'c': ['1']}


def test_an_image_without_properties():
    made = request_spec_dict(RequestSpec(image=ImageMeta(name='cirros')))
    assert made['image'] == {'name': 'cirros'}


def test_a_flavor_as_a_dict():
    flavor = {'name': 'm1', 'vcpus': '2', 'colour': 'blue'}
    spec = from_legacy({'instance_type': flavor}, {})
    assert spec.vcpus == 2
    assert 'memory_mb' not in spec.flavor


@cases(
    'spec, expected',
    ('nothing', RequestSpec(), {}),
    (
        'all empty',
        RequestSpec(
            ignore_hosts=[],
            force_hosts=None,
            retry=None,
            limits=None,
            instance_group=None,
            scheduler_hints={},
            requested_destination=None,
        ),
        {},
    ),
    ('no limit set', RequestSpec(limits=SchedulerLimits()), {'limits': {}}),
    ('retry of nothing', RequestSpec(retry=SchedulerRetries()), {'retry': {}}),
    (
        'group of nothing',
        RequestSpec(instance_group=InstanceGroup()),
        {
            'group_updated': True,
            'group_hosts': set(),
            'group_policies': set(),
            'group_members': set(),
        },
    ),
)
def test_filter_properties_dict(spec, expected):
    assert filter_properties_dict(spec) == expected


@pytest.mark.parametrize('name', ['02-multi-create-anti-affinity', '04-pci-alias'])
def test_dicts_and_back(spec_sample, plain, name):
    spec = base.parse(spec_sample(name))
    back = from_legacy(request_spec_dict(spec), filter_properties_dict(spec))
    kept = ('numa_topology', 'pci_requests', 'flavor', 'image')
    for field in kept:
        before, after = getattr(spec, field), getattr(back, field)
        if before is None:
            assert after is None
        else:
            assert plain(after.obj_to_primitive()) == plain(before.obj_to_primitive())
    assert back.instance_uuid == spec.instance_uuid
    assert back.scheduler_hints == spec.scheduler_hints

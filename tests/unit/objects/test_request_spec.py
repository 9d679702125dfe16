# SPDX-License-Identifier: Apache-2.0
"""What a request says of itself."""

import pytest

from novasched import errors
from novasched.objects import base
from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from novasched.objects.instance_group import InstanceGroup
from novasched.objects.request_spec import (
    CellMapping,
    Destination,
    RequestGroup,
    RequestLevelParams,
    RequestSpec,
    SchedulerLimits,
)
from tests.support.tables.cases import cases

UUID = 'b6c56007-17c7-5950-8ce1-2b1e5c537581'
OTHER = 'da836d98-eb56-5c4c-8210-5be7a898122a'


@cases(
    'hints, value',
    ('a list of one is its item', {'query': ['x']}, 'x'),
    ('a longer list stays', {'query': ['x', 'y']}, ['x', 'y']),
    ('an empty list stays', {'query': []}, []),
    ('empty text', {'query': ['']}, ''),
    ('missing', {'other': ['x']}, 'default'),
    ('no hints', {}, 'default'),
    ('null hints', None, 'default'),
    ('unset hints', 'unset', 'default'),
)
def test_hint(hints, value):
    spec = RequestSpec() if hints == 'unset' else RequestSpec(scheduler_hints=hints)
    assert spec.hint('query', 'default') == value
    assert spec.get_scheduler_hint('query', 'default') == value


@cases(
    'hints, is_rebuild, checks_type',
    ('rebuild', {'_nova_check_type': ['rebuild']}, True, True),
    ('another type', {'_nova_check_type': ['x']}, False, True),
    ('two', {'_nova_check_type': ['rebuild', 'rebuild']}, False, True),
    ('empty text', {'_nova_check_type': ['']}, False, False),
    ('empty list', {'_nova_check_type': []}, False, False),
    ('no hint', {}, False, False),
    ('null hints', None, False, False),
)
def test_check_type(hints, is_rebuild, checks_type):
    spec = RequestSpec(scheduler_hints=hints)
    assert (spec.is_rebuild, spec.checks_type) == (is_rebuild, checks_type)


def test_sizes_come_from_the_flavor():
    flavor = Flavor(vcpus=2, memory_mb=1024, root_gb=20, ephemeral_gb=5, swap=512)
    spec = RequestSpec(flavor=flavor)
    sizes = spec.vcpus, spec.memory_mb, spec.root_gb, spec.ephemeral_gb, spec.swap
    assert sizes == (2, 1024, 20, 5, 512)


@cases(
    'spec, found',
    ('image unset', RequestSpec(), None),
    ('no image', RequestSpec(image=None), None),
    ('properties unset', RequestSpec(image=ImageMeta()), None),
    (
        'a property',
        RequestSpec(image=ImageMeta(properties=ImageMetaProps(hw_disk_bus='virtio'))),
        'virtio',
    ),
)
def test_image_properties(spec, found):
    assert spec.image_properties.get('hw_disk_bus') == found


def test_extra_specs():
    assert RequestSpec(flavor=Flavor()).extra_specs == {}
    flavor = Flavor(extra_specs={'hw:cpu_policy': 'shared'})
    assert RequestSpec(flavor=flavor).extra_specs == {'hw:cpu_policy': 'shared'}


def test_level_params():
    params = RequestLevelParams(
        root_required={'A'}, root_forbidden={'B'}, same_subtree=[['g1', 'g2']]
    )
    spec = RequestSpec(request_level_params=params)
    assert spec.root_required == {'A'}
    assert spec.root_forbidden == {'B'}
    assert spec.same_subtree == [['g1', 'g2']]


def test_unset_fields_read_as_the_contract_says():
    spec = RequestSpec()
    assert spec.requested_destination is None
    assert spec.requested_resources is None
    assert list(spec.security_groups) == []
    assert list(spec.requested_networks) == []
    assert spec.network_metadata.physnets == set()
    assert spec.network_metadata.tunneled is False
    assert spec.root_required == spec.root_forbidden == set()
    assert spec.same_subtree == []
    assert spec.num_instances == 1
    for name in ('flavor', 'image', 'instance_uuid', 'is_bfv', 'project_id'):
        with pytest.raises(errors.UnsetField):
            getattr(spec, name)


def test_an_unset_destination_has_no_host():
    destination = Destination()
    assert destination.aggregates is None
    assert destination.forbidden_aggregates is None
    assert destination.allow_cross_cell_move is False
    with pytest.raises(errors.UnsetField):
        _ = destination.host


def test_a_request_group_is_made_complete():
    sent = RequestGroup(resources={'VCPU': 1}).obj_to_primitive()
    assert set(sent['nova_object.data']) == set(RequestGroup.fields)


def test_limits_as_a_dict():
    assert SchedulerLimits().to_dict() == {}
    assert SchedulerLimits(vcpu=0, disk_gb=5).to_dict() == {'vcpu': 0, 'disk_gb': 5}


def test_for_instance_leaves_the_original(spec_sample):
    spec = base.parse(spec_sample('02-multi-create-anti-affinity'))
    before = spec.obj_to_primitive()
    one = spec.for_instance(OTHER)
    assert one.instance_uuid == OTHER
    assert one.instance_group is spec.instance_group
    assert one.obj_what_changed() == spec.obj_what_changed()
    assert one.flavor is spec.flavor
    assert spec.obj_to_primitive() == before


@cases(
    'spec, hosts',
    ('group unset', RequestSpec(), None),
    ('no group', RequestSpec(instance_group=None), None),
    ('a group nowhere', RequestSpec(instance_group=InstanceGroup()), ['h2']),
    (
        'a group on a host',
        RequestSpec(instance_group=InstanceGroup(hosts=['h1'])),
        ['h1', 'h2'],
    ),
)
def test_a_group_is_on_one_more_host(spec, hosts):
    before = spec.obj_to_primitive()
    grown = spec.with_group_on('h2')
    group = grown.instance_group if 'instance_group' in grown else None
    assert (None if group is None else group.hosts) == hosts
    assert spec.obj_to_primitive() == before


@cases('destination, uuid',
    ('no destination', None, None),
    ('a host, but no cell', Destination(allow_cross_cell_move=False), None),
    ('a cell', Destination(cell=CellMapping(uuid='a'), allow_cross_cell_move=False),
     'a'),
    ('a move that may leave the cell',
     Destination(cell=CellMapping(uuid='a'), allow_cross_cell_move=True), None),
)  # fmt: skip
def test_the_cell_that_the_hosts_must_be_of(destination, uuid):
    request = RequestSpec(requested_destination=destination)
    assert request.target_cell_uuid == uuid

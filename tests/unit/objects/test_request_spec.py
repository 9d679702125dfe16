# SPDX-License-Identifier: Apache-2.0
"""What a request says of itself."""

from __future__ import annotations

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

UUID = 'b6c56007-17c7-5950-8ce1-2b1e5c537581'
OTHER = 'da836d98-eb56-5c4c-8210-5be7a898122a'


@pytest.mark.parametrize(
    ('hints', 'value'),
    [
        pytest.param({'query': ['x']}, 'x', id='a list of one is its item'),
        pytest.param({'query': ['x', 'y']}, ['x', 'y'], id='a longer list stays'),
        pytest.param({'query': []}, [], id='an empty list stays'),
        pytest.param({'query': ['']}, '', id='empty text'),
        pytest.param({'other': ['x']}, 'default', id='missing'),
        pytest.param({}, 'default', id='no hints'),
        pytest.param(None, 'default', id='null hints'),
        pytest.param('unset', 'default', id='unset hints'),
    ],
)
def test_hint(hints, value):
    spec = RequestSpec() if hints == 'unset' else RequestSpec(scheduler_hints=hints)
    assert spec.hint('query', 'default') == value
    assert spec.get_scheduler_hint('query', 'default') == value


@pytest.mark.parametrize(
    ('hints', 'is_rebuild', 'checks_type'),
    [
        pytest.param({'_nova_check_type': ['rebuild']}, True, True, id='rebuild'),
        pytest.param({'_nova_check_type': ['x']}, False, True, id='another type'),
        pytest.param(
            {'_nova_check_type': ['rebuild', 'rebuild']}, False, True, id='two'
        ),
        pytest.param({'_nova_check_type': ['']}, False, False, id='empty text'),
        pytest.param({'_nova_check_type': []}, False, False, id='empty list'),
        pytest.param({}, False, False, id='no hint'),
        pytest.param(None, False, False, id='null hints'),
    ],
)
def test_check_type(hints, is_rebuild, checks_type):
    spec = RequestSpec(scheduler_hints=hints)
    assert (spec.is_rebuild, spec.checks_type) == (is_rebuild, checks_type)


def test_sizes_come_from_the_flavor():
    flavor = Flavor(vcpus=2, memory_mb=1024, root_gb=20, ephemeral_gb=5, swap=512)
    spec = RequestSpec(flavor=flavor)
    sizes = spec.vcpus, spec.memory_mb, spec.root_gb, spec.ephemeral_gb, spec.swap
    assert sizes == (2, 1024, 20, 5, 512)


@pytest.mark.parametrize(
    ('spec', 'found'),
    [
        pytest.param(RequestSpec(), None, id='image unset'),
        pytest.param(RequestSpec(image=None), None, id='no image'),
        pytest.param(RequestSpec(image=ImageMeta()), None, id='properties unset'),
        pytest.param(
            RequestSpec(
                image=ImageMeta(properties=ImageMetaProps(hw_disk_bus='virtio'))
            ),
            'virtio',
            id='a property',
        ),
    ],
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


@pytest.mark.parametrize(
    ('spec', 'hosts'),
    [
        pytest.param(RequestSpec(), None, id='group unset'),
        pytest.param(RequestSpec(instance_group=None), None, id='no group'),
        pytest.param(
            RequestSpec(instance_group=InstanceGroup()), ['h2'], id='a group nowhere'
        ),
        pytest.param(
            RequestSpec(instance_group=InstanceGroup(hosts=['h1'])),
            ['h1', 'h2'],
            id='a group on a host',
        ),
    ],
)
def test_a_group_is_on_one_more_host(spec, hosts):
    before = spec.obj_to_primitive()
    grown = spec.with_group_on('h2')
    group = grown.instance_group if 'instance_group' in grown else None
    assert (None if group is None else group.hosts) == hosts
    assert spec.obj_to_primitive() == before


@pytest.mark.parametrize(
    ('destination', 'uuid'),
    [
        pytest.param(None, None, id='no destination'),
        pytest.param(
            Destination(allow_cross_cell_move=False), None, id='a host, but no cell'
        ),
        pytest.param(
            Destination(cell=CellMapping(uuid='a'), allow_cross_cell_move=False),
            'a',
            id='a cell',
        ),
        pytest.param(
            Destination(cell=CellMapping(uuid='a'), allow_cross_cell_move=True),
            None,
            id='a move that may leave the cell',
        ),
    ],
)
def test_the_cell_that_the_hosts_must_be_of(destination, uuid):
    request = RequestSpec(requested_destination=destination)
    assert request.target_cell_uuid == uuid

# SPDX-License-Identifier: Apache-2.0
"""Instances in casts are read as far as we know how."""

import copy

import pytest
from oslo_versionedobjects import exception as ovo_exception

from novasched import errors
from novasched.objects import base
from tests.support.tables.cases import cases


@pytest.fixture
def cast(sample):
    message = sample('casts/update_instance_info')['message']
    return copy.deepcopy(message['args']['instance_info'])


def first(cast):
    return cast['nova_object.data']['objects'][0]


def unknown(name='Sandwich', version='1.0'):
    return {
        'nova_object.name': name,
        'nova_object.namespace': 'nova',
        'nova_object.version': version,
        'nova_object.data': {},
    }


def test_a_captured_cast_is_read_whole(cast, plain):
    instances = base.parse(cast)
    sent = cast['nova_object.data']['objects']
    assert [one.uuid for one in instances] == [
        one['nova_object.data']['uuid'] for one in sent
    ]
    assert [one.unreadable for one in instances] == [{}] * len(sent)
    assert plain(instances.obj_to_primitive()) == plain(cast)


@cases(
    'field, value',
    ('an unknown object', 'pci_requests', unknown()),
    ('a newer object', 'flavor', unknown('Flavor', '1.9')),
    ('another major', 'flavor', unknown('Flavor', '2.0')),
    ('text for an object', 'flavor', 'm1.small'),
    ('text for a number', 'vcpus', 'many'),
    ('null where not allowed', 'metadata', None),
)
def test_a_field_that_cannot_be_read_is_left_unset(cast, field, value):
    first(cast)['nova_object.data'][field] = value
    instance = base.parse(cast)[0]
    assert field not in instance
    assert instance.host == 'cmp-1'
    with pytest.raises(
        (errors.InvalidRequest, ovo_exception.IncompatibleObjectVersion)
    ):
        getattr(instance, field)


def test_an_object_without_a_part_in_scheduling_is_passed_on(cast):
    first(cast)['nova_object.data']['keypairs'] = unknown()
    assert base.parse(cast)[0].keypairs == unknown()


@pytest.mark.parametrize('version', ['2.9', '3.0', '2.0'])
def test_any_version_is_read(cast, version):
    cast['nova_object.version'] = version
    first(cast)['nova_object.version'] = version
    uuid = first(cast)['nova_object.data']['uuid']
    assert base.parse(cast)[0].uuid == uuid


@pytest.mark.parametrize('uuid', [None, []])
def test_the_uuid_must_be_readable(cast, uuid):
    first(cast)['nova_object.data']['uuid'] = uuid
    with pytest.raises(errors.InvalidRequest, match=r'Instance\.uuid: '):
        base.parse(cast)


def test_the_uuid_must_be_there(cast):
    del first(cast)['nova_object.data']['uuid']
    with pytest.raises(errors.InvalidRequest, match=r'Instance\.uuid is missing'):
        base.parse(cast)


def test_an_unset_field_is_just_unset(cast):
    del first(cast)['nova_object.data']['host']
    with pytest.raises(errors.UnsetField):
        _ = base.parse(cast)[0].host


@pytest.mark.parametrize(
    'name', ['update_aggregates.existing', 'update_aggregates.created']
)
def test_captured_aggregates(sample, plain, name):
    sent = sample(f'casts/{name}')['message']['args']['aggregates']
    for one in sent:
        aggregate = base.parse(one)
        zone = one['nova_object.data']['metadata'].get('availability_zone')
        assert aggregate.availability_zone == zone
        assert plain(aggregate.obj_to_primitive()) == plain(one)


def test_a_captured_deleted_aggregate(sample, plain):
    sent = sample('casts/delete_aggregate')['message']['args']['aggregate']
    assert plain(base.parse(sent).obj_to_primitive()) == plain(sent)

# SPDX-License-Identifier: Apache-2.0
"""Reading and writing objects, good ones and bad ones."""

import copy
import json

import pytest
from oslo_versionedobjects import base as ovo_base
from oslo_versionedobjects import exception as ovo_exception

from novasched import errors
from novasched.objects import base
from novasched.objects.network import NetworkMetadata
from novasched.objects.request_spec import Destination, RequestSpec
from tests.support.tables.cases import cases

REQUESTS = [
    '01-simple-boot',
    '01b-simple-boot-no-objects',
    '01c-az-and-hint',
    '02-multi-create-anti-affinity',
    '03-numa-pinned-hugepages',
    '03b-numa-shared',
    '04-pci-alias',
    '04b-pci-alias-in-placement',
    '05-granular-resources-traits',
    '06-requested-destination',
    '07-resize-retry-ignore-hosts',
    '08-rebuild-same-host',
    '09c-version-4.3',
    '09d-version-4.4',
    '10-call-monitor',
]


def primitive(name='RequestSpec', version='1.15', namespace='nova', **data):
    return {
        'nova_object.name': name,
        'nova_object.namespace': namespace,
        'nova_object.version': version,
        'nova_object.data': data,
    }


@pytest.mark.parametrize('name', REQUESTS)
def test_a_captured_request_is_written_as_it_was_read(spec_sample, plain, name):
    received = spec_sample(name)
    spec = base.parse(copy.deepcopy(received))
    written = json.loads(json.dumps(spec.obj_to_primitive()))
    assert plain(written) == plain(received)


@pytest.mark.parametrize('name', REQUESTS)
def test_a_copy_of_a_request_is_written_alike(spec_sample, plain, name):
    spec = base.parse(spec_sample(name))
    assert plain(spec.obj_clone().obj_to_primitive()) == plain(spec.obj_to_primitive())


@pytest.mark.parametrize('name', REQUESTS)
def test_fields_hold_what_was_sent(spec_sample, name):
    def compare(thing, sent):
        for field, value in sent['nova_object.data'].items():
            held = getattr(thing, field)
            if isinstance(value, dict) and 'nova_object.name' in value:
                compare(held, value)
            elif isinstance(held, set):
                assert held == set(value)
            elif (
                isinstance(held, list) and held and isinstance(held[0], base.NovaObject)
            ):
                for item, raw in zip(held, value, strict=True):
                    compare(item, raw)
            elif hasattr(held, 'isoformat'):
                assert held.strftime('%Y-%m-%dT%H:%M:%SZ') == value
            else:
                assert held == value
        unset = set(type(thing).fields) - set(sent['nova_object.data'])
        filled = isinstance(thing, base.FilledObject)
        assert filled or not any(field in thing for field in unset)

    received = spec_sample(name)
    compare(base.parse(received), received)


def test_the_received_primitive_is_left_alone(spec_sample):
    received = spec_sample('03-numa-pinned-hugepages')
    before = copy.deepcopy(received)
    base.parse(received)
    base.parse(received, accept_newer=True)
    assert received == before


def test_changes_that_were_sent_are_kept():
    received = primitive(num_instances=2)
    received['nova_object.changes'] = ['num_instances', 'no_such_field']
    assert base.parse(received).obj_what_changed() == {'num_instances'}


def test_fields_that_we_do_not_know_are_ignored():
    spec = base.parse(primitive(colour='blue', num_instances=2))
    assert spec.num_instances == 2
    assert not hasattr(spec, 'colour')


@cases(
    'data, field, value',
    ('digits for int', {'num_instances': '3'}, 'num_instances', 3),
    ('null, default', {'num_instances': None}, 'num_instances', 1),
    ('number for text', {'project_id': 7}, 'project_id', '7'),
    ('uuid unchecked', {'instance_uuid': 'x'}, 'instance_uuid', 'x'),
    ('number for uuid', {'instance_uuid': 7}, 'instance_uuid', '7'),
    ('null allowed', {'image': None}, 'image', None),
)
def test_values_are_coerced(data, field, value):
    assert getattr(base.parse(primitive(**data)), field) == value


@cases('received, text',
    ('text for int', primitive(num_instances='abc'), 'RequestSpec.num_instances: '),
    ('array for int', primitive(num_instances=[]), 'RequestSpec.num_instances: '),
    ('infinity for int', primitive(num_instances=float('inf')),
     'RequestSpec.num_instances: '),
    ('dict for text', primitive(project_id={}), 'RequestSpec.project_id: '),
    ('null where not allowed', primitive(instance_uuid=None),
     "RequestSpec.instance_uuid: Field `instance_uuid' cannot be None"),
    ('array for uuid', primitive(instance_uuid=[]), 'RequestSpec.instance_uuid: '),
    ('text for list', primitive(ignore_hosts='abc'), 'RequestSpec.ignore_hosts: '),
    ('list for dict', primitive(scheduler_hints=[]), 'RequestSpec.scheduler_hints: '),
    ('text for object', primitive(flavor='m1.small'),
     'RequestSpec: an object is required, not a str'),
    ('object of another class', primitive(flavor=primitive('Destination', '1.4')),
     'RequestSpec.flavor: '),
    ('number for object in a list', primitive(requested_resources=[5]),
     'an object is required, not a int'),
    ('inner object mistyped', primitive(flavor=primitive('Flavor', '1.2', vcpus='two')),
     'Flavor.vcpus: '),
    ('unknown enum value', primitive('InstancePCIRequest', '1.4', numa_policy='near'),
     'InstancePCIRequest.numa_policy: Field value near is invalid'),
    ('text that is no time', primitive('Flavor', '1.2', created_at='yesterday'),
     'Flavor.created_at: '),
    ('text that is no address',
     primitive('NetworkRequest', '1.3', address='10.0.0.300'),
     'NetworkRequest.address: '),
    ('version is a word', primitive(version='one'), "'one' is no object version"),
    ('version of four parts', primitive(version='1.15.2.3'), 'is no object version'),
    ('version is a number', primitive(version=1.15),
     'RequestSpec: nova_object.version is missing or mistyped'),
    ('no envelope', {'nova_object.name': 'RequestSpec'},
     'RequestSpec: nova_object.namespace is missing or mistyped'),
    ('data is a list', {**primitive(), 'nova_object.data': []},
     'RequestSpec: nova_object.data is missing or mistyped'),
)  # fmt: skip
def test_bad_input_is_refused_with_its_place(received, text):
    with pytest.raises(errors.InvalidRequest) as caught:
        base.parse(received)
    assert text in str(caught.value)


@cases('received, name',
    ('unknown object', primitive('Sandwich', '1.0'), 'Sandwich'),
    ('unknown inner object', primitive(flavor=primitive('Sandwich', '1.0')),
     'Sandwich'),
    ('namespace of another project', primitive(namespace='cinder'),
     'cinder.RequestSpec'),
)  # fmt: skip
def test_unknown_objects_are_named(received, name):
    with pytest.raises(errors.UnsupportedObject) as caught:
        base.parse(received)
    assert f'Unsupported object type {name}' in str(caught.value)


@cases(
    'version, accepted',
    ('the known version', '1.15', True),
    ('an older minor', '1.0', True),
    ('third part of the known version', '1.15.3', True),
    ('third part of an older minor', '1.9.1', True),
    ('a newer minor', '1.16', False),
    ('a minor that sorts before as text', '1.100', False),
    ('a newer major', '2.0', False),
    ('an older major', '0.9', False),
)
@pytest.mark.parametrize('inner', [False, True], ids=['outer', 'inner'])
def test_versions(version, accepted, inner):
    received = primitive(version=version, num_instances=2)
    if inner:
        minor = int(version.split('.')[1]) - 13 if version != '0.9' else 9
        flavor = version.replace(version.split('.')[1], str(max(minor, 0)), 1)
        received = primitive(flavor=primitive('Flavor', flavor, vcpus=2))
        if version.startswith('2'):
            received = primitive(flavor=primitive('Flavor', '2.0', vcpus=2))
    if accepted:
        base.parse(received)
    else:
        with pytest.raises(ovo_exception.IncompatibleObjectVersion):
            base.parse(received)


def test_the_third_part_of_a_version_is_forgotten():
    spec = base.parse(primitive(version='1.15.3'))
    assert spec.obj_to_primitive()['nova_object.version'] == '1.15'


def test_a_newer_minor_can_be_accepted():
    flavor = primitive('Flavor', '1.9', vcpus=2, colour='blue')
    spec = base.parse(
        primitive(version='1.16', flavor=flavor, novelty=[flavor]), accept_newer=True
    )
    assert spec.vcpus == 2
    assert spec.obj_to_primitive()['nova_object.version'] == '1.15'


def test_another_major_is_never_accepted():
    with pytest.raises(ovo_exception.IncompatibleObjectVersion):
        base.parse(primitive(version='2.0'), accept_newer=True)


def test_the_captured_newer_request_is_refused(sample):
    captured = sample('failures/newer-object-version.request')
    with pytest.raises(ovo_exception.IncompatibleObjectVersion):
        base.parse(captured['message']['args']['spec_obj'])


def test_a_missing_flavor_is_found_when_it_is_needed():
    spec = base.parse(primitive())
    with pytest.raises(errors.UnsetField) as caught:
        _ = spec.vcpus
    assert str(caught.value) == (
        'Object action obj_load_attr failed because: attribute flavor not lazy-loadable'
    )


def test_reading_an_unset_field_is_no_change():
    spec = RequestSpec()
    assert spec.requested_destination is None
    assert spec.network_metadata.physnets == set()
    assert spec.obj_what_changed() == set()


def test_a_default_belongs_to_one_object():
    first, second = RequestSpec(), RequestSpec()
    first.request_level_params.root_required.add('HW_CPU_X86_VMX')
    assert second.request_level_params.root_required == set()


def test_set_and_none_differ():
    destination = Destination(node=None)
    assert 'node' in destination
    assert 'host' not in destination


def test_replaced_leaves_the_original_and_records_no_change():
    old = Destination(host='h1')
    old.obj_reset_changes()
    new = old.replaced(host='h2', node='n2')
    assert (old.host, new.host, new.node) == ('h1', 'h2', 'n2')
    assert 'node' not in old
    assert new.obj_what_changed() == set()
    new.host = 'h3'
    assert old.obj_what_changed() == set()


def test_assign_says_which_field_does_not_fit():
    with pytest.raises(errors.InvalidRequest, match=r'RequestSpec\.num_instances: '):
        RequestSpec().assign(num_instances='many')


def test_our_classes_are_not_in_the_registry_of_the_process():
    ours = base.NovaObjectRegistry.obj_classes()
    theirs = ovo_base.VersionedObjectRegistry.obj_classes()
    assert 'RequestSpec' in ours
    assert 'RequestSpec' not in theirs


def test_sets_are_read_from_arrays():
    read = base.parse(primitive('NetworkMetadata', '1.0', physnets=['a', 'b', 'a']))
    assert isinstance(read, NetworkMetadata)
    assert read.physnets == {'a', 'b'}

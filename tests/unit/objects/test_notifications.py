# SPDX-License-Identifier: Apache-2.0
"""Payloads, against what was sampled from nova and against its tables."""

import datetime
import json
import pathlib

import pytest

from novasched.objects import base, notifications
from novasched.objects.request_spec import Destination, RequestSpec
from tests.support.tables.cases import cases

SAMPLES = pathlib.Path(__file__).parents[2] / 'samples'
SCHEMA = json.loads((SAMPLES / 'objects-schema.json').read_text())
PAYLOADS = {
    value.name: value
    for value in vars(notifications).values()
    if isinstance(value, notifications.Payload)
}
NUMBERED = sorted(path.name for path in SAMPLES.glob('notifications/0*.json'))


def sampled(name):
    path = SAMPLES / 'notifications' / name
    return json.loads(path.read_text())['message']['payload']


def spec_of(request):
    path = SAMPLES / 'rpc' / f'{request}.request.json'
    message = json.loads(path.read_text())['message']
    return base.parse(message['args']['spec_obj'])


def comparable(value, path=()):
    """Leave out contexts, and the order of what is a set."""
    if isinstance(value, dict):
        return {
            key: None if key == '_context' else comparable(item, (*path, key))
            for key, item in value.items()
        }
    if isinstance(value, list):
        items = [comparable(item, path) for item in value]
        return sorted(items) if path[-1:] in {('cpuset',), ('pcpuset',)} else items
    return value


AZ1 = 'ce6be11f-04bf-5fc4-a181-1756686935fb'
"""The aggregate of zone az1."""


def as_it_was(spec, request, phase):
    """Make of a request what it was when the notification was sampled.

    Pre-filters come before the start; hosts and pinning are known at the end.
    """
    if request == '01c-az-and-hint':
        spec.requested_destination = Destination(aggregates=[AZ1])
    if request == '07-resize-retry-ignore-hosts':
        spec.requested_destination.aggregates = [AZ1]
    if (request, phase) == ('02-multi-create-anti-affinity', 'end'):
        spec.instance_group.hosts = ['cmp-1', 'cmp-1', 'cmp-3']
        spec.instance_uuid = spec.instance_group.members[-1]
    if (request, phase) == ('03-numa-pinned-hugepages', 'end'):
        first, second = spec.numa_topology.cells
        first.cpu_pinning_raw = {'0': 1, '1': 9}
        second.cpu_pinning_raw = {'2': 13, '3': 5}
    return spec


@pytest.mark.parametrize('name', NUMBERED)
def test_the_samples_are_reproduced(name):
    request, form, phase, _ = name.rsplit('.', 3)
    spec = as_it_was(spec_of(request), request, phase)
    if form == 'legacy':
        made = {'request_spec': notifications.legacy_request_spec(spec)}
    else:
        made = notifications.request_spec(spec)
    made = json.loads(json.dumps(made))
    assert comparable(made) == comparable(sampled(name))


@pytest.mark.parametrize('name', sorted(n for n in SCHEMA if n.endswith('Payload')))
def test_the_tables_are_nova_s(name):
    payload = PAYLOADS[name]
    fields = SCHEMA[name]['fields']
    unused = {'image_meta'} if name == 'RequestSpecPayload' else set()
    assert payload.version == SCHEMA[name]['version']
    assert {*payload.fields, *payload.required} == fields.keys() - unused
    assert all(fields[field]['nullable'] for field in payload.fields)


def test_no_object_of_a_payload_lists_changes():
    spec = spec_of('07-resize-retry-ignore-hosts')
    spec.ignore_hosts = ['cmp-9']
    assert 'nova_object.changes' not in json.dumps(notifications.request_spec(spec))


def test_a_legacy_payload_never_holds_the_context():
    path = SAMPLES / 'rpc' / '04-pci-alias.request.json'
    message = json.loads(path.read_text())['message']
    spec = base.parse(message['args']['spec_obj'], {'auth_token': 'secret'})
    made = notifications.legacy_request_spec(spec)
    assert 'secret' not in json.dumps(made)
    assert made['instance_properties']['pci_requests']['_context'] is None


def test_unset_fields_are_null_or_left_out():
    data = notifications.request_spec(RequestSpec())['nova_object.data']
    lacking = dict.fromkeys(notifications.REQUEST_SPEC.fields)
    assert data == lacking | {'num_instances': 1, 'security_groups': []}


def test_a_legacy_payload_of_an_empty_request():
    assert notifications.legacy_request_spec(RequestSpec()) == {
        'num_instances': 1,
        'image': {},
        'instance_properties': {},
        'instance_type': {},
    }


def test_reading_a_request_does_not_change_it():
    spec = spec_of('01-simple-boot')
    before = spec.obj_to_primitive()
    empty = RequestSpec()
    for each in (spec, empty):
        notifications.request_spec(each)
        notifications.legacy_request_spec(each)
    assert spec.obj_to_primitive() == before
    assert empty.obj_to_primitive()['nova_object.data'] == {}


@cases(
    'field, values, said',
    ('the first forced host', 'force_hosts', ['a', 'b'], 'a'),
    ('the first forced node', 'force_nodes', ['n'], 'n'),
    ('an empty list', 'force_hosts', [], None),
    ('null', 'force_hosts', None, None),
    ('all ignored hosts', 'ignore_hosts', ['a', 'b'], ['a', 'b']),
)
def test_lists_of_hosts(field, values, said):
    spec = RequestSpec(**{field: values})
    assert notifications.request_spec(spec)['nova_object.data'][field] == said


def test_a_topology_is_given_the_instance_of_the_request():
    spec = spec_of('03-numa-pinned-hugepages')
    data = notifications.request_spec(spec)['nova_object.data']
    topology = data['numa_topology']['nova_object.data']
    assert topology['instance_uuid'] == spec.instance_uuid


def test_the_policy_stands_for_missing_policies():
    spec = spec_of('02-multi-create-anti-affinity')
    spec.instance_group = type(spec.instance_group)(uuid='g', policy='affinity')
    data = notifications.request_spec(spec)['nova_object.data']
    group = data['instance_group']['nova_object.data']
    assert (group['policies'], group['rules'], group['hosts']) == (
        ['affinity'],
        {},
        None,
    )


def test_a_security_group_without_uuid_is_named():
    spec = spec_of('01-simple-boot')
    groups = spec.security_groups
    spec.security_groups = type(groups)(objects=[type(groups.objects[0])(name='web')])
    data = notifications.request_spec(spec)['nova_object.data']
    assert data['security_groups'] == ['web']


def test_service_status_is_reproduced():
    wanted = sampled('service-create.versioned.json')
    fields = wanted['nova_object.data']
    assert notifications.service_status(**fields) == wanted
    assert fields.keys() == {
        *notifications.SERVICE_STATUS.fields,
        *notifications.SERVICE_STATUS.required,
    }


def test_service_status_tells_whole_seconds_of_utc():
    seen = datetime.datetime(2026, 11, 21, 3, 50, 0, 123456, datetime.UTC)
    made = notifications.service_status(last_seen_up=seen)
    assert made['nova_object.data']['last_seen_up'] == '2026-11-21T03:50:00Z'

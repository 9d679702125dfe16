# SPDX-License-Identifier: Apache-2.0
"""Versions, namespaces and methods, and the clients of older releases."""

import pytest

from tests.live import wire as wire_
from tests.live.peer import PeerError
from tests.support.tables.cases import cases


@cases(
    'version, namespace, method, class_, text',
    (
        'a newer minor version',
        '4.6',
        None,
        'select_destinations',
        'UnsupportedVersion',
        'Endpoint does not support RPC version 4.6.'
        ' Attempted method: select_destinations',
    ),
    (
        'another major version',
        '5.0',
        None,
        'select_destinations',
        'UnsupportedVersion',
        'Endpoint does not support RPC version 5.0.'
        ' Attempted method: select_destinations',
    ),
    (
        'an unknown namespace',
        '4.5',
        'nosuch',
        'select_destinations',
        'UnsupportedVersion',
        'Endpoint does not support RPC version 4.5.'
        ' Attempted method: select_destinations',
    ),
    (
        'an unknown method',
        '4.5',
        None,
        'nosuch_method',
        'NoSuchMethod',
        'Endpoint does not support RPC method nosuch_method',
    ),
    (
        'a private method',
        '4.5',
        None,
        '_schedule',
        'NoSuchMethod',
        'Endpoint does not support RPC method _schedule',
    ),
)
@pytest.mark.scenario('F26', 'I8')
def test_unserved_version_namespace_or_method_fails_as_in_nova(
    scheduler, version, namespace, method, class_, text
):
    with pytest.raises(PeerError) as raised:
        scheduler.client.run(
            'call',
            version=version,
            namespace=namespace,
            method=method,
            args={},
            timeout=20,
        )
    assert raised.value.name == 'RemoteError'
    assert (raised.value.exc_type, raised.value.value) == (class_, text)


def test_the_module_of_a_dispatcher_error(wire):
    _, failure = wire.call(wire_.message(method='nosuch_method'))
    assert failure['module'] == 'oslo_messaging.rpc.dispatcher'
    assert failure['args'] == ['Endpoint does not support RPC method nosuch_method']


@pytest.mark.ours
@pytest.mark.parametrize('method', ['reset', 'periodic_tasks', 'init_host', 'select'])
def test_method_outside_the_interface_cannot_be_called(wire, method):
    _, failure = wire.call(wire_.message(method=method))
    assert failure['class'] == 'NoSuchMethod'


def test_ping(scheduler):
    assert scheduler.client.run('ping', arg={'is': [1]}, timeout=20) == {
        'service': 'scheduler',
        'arg': {'is': [1]},
    }


def test_get_backdoor_port(scheduler):
    answer = scheduler.client.run('get_backdoor_port', host='live-scheduler')
    assert answer is None


@cases(
    'level, claimed',
    ('4.0 sends dicts', '4.0', False),
    ('4.3 sends a spec without uuids', '4.3', False),
    ('4.4 sends a spec and uuids', '4.4', True),
)
def test_a_client_of_an_older_release(
    scheduler, cloud, placement, claims, level, claimed
):
    reply = scheduler.select(level=level, zone='az2', ignore_hosts=['node-3'])
    node = cloud.hosts['node-4']
    assert reply.answer == [{'host': node.name, 'nodename': node.node, 'limits': {}}]
    if claimed:
        claims.expect(reply.uuid)
        assert list(placement.allocations(reply.uuid)) == [node.uuid]


@pytest.mark.parametrize('level', ['4.0', '4.3', '4.4'])
def test_no_valid_host_for_a_client_of_an_older_release(scheduler, level):
    with pytest.raises(PeerError) as raised:
        scheduler.select(level=level, flavor={'vcpus': 64})
    assert raised.value.name == 'NoValidHost'
    assert raised.value.text == 'No valid host was found. '


def test_several_instances_without_uuids_are_counted_by_the_spec(scheduler):
    reply = scheduler.select(level='4.3', num_instances=2)
    assert len(reply.answer) == 2


@pytest.mark.ours
def test_the_group_of_the_dict_form_is_understood(scheduler, new_uuid):
    """The peer fails here: it never sets the field that its filter reads."""
    reply = scheduler.select(
        level='4.0',
        group={'policy': 'affinity', 'members': [new_uuid()], 'hosts': ['node-3']},
    )
    assert [each['host'] for each in reply.answer] == ['node-3']


def test_the_reply_on_the_wire(wire, claims, new_uuid):
    consumer = new_uuid()
    call = wire.send(wire_.message(args=wire_.boot_args([consumer])))
    (final,) = wire.answers(call)
    claims.expect(consumer)
    assert set(final) == {'result', 'failure', 'ending', '_msg_id', '_unique_id'}
    assert final['failure'] is None
    ((best, *_),) = final['result']
    assert best['nova_object.name'] == 'Selection'
    assert best['nova_object.namespace'] == 'nova'
    assert best['nova_object.version'] == '1.1'
    limits = best['nova_object.data']['limits']
    assert limits['nova_object.name'] == 'SchedulerLimits'
    assert limits['nova_object.version'] == '1.0'
    assert set(limits['nova_object.data'].values()) == {None}

# SPDX-License-Identifier: Apache-2.0
"""Each form of a request and each cast, sent by the release's own RPC client."""

from __future__ import annotations

import contextlib
import uuid

import pytest

from tests.live.peer import Client, Peer, PeerError

FORMS = {
    'objects with alternates': {},
    'objects': {'alternates': False},
    'dicts': {'objects': False},
    '4.4': {'level': '4.4'},
    '4.3': {'level': '4.3'},
    '4.0': {'level': '4.0'},
}
WITHOUT_UUIDS = ('4.3', '4.0')


@pytest.fixture(scope='module')
def peer(tmp_path_factory):
    """The process of the release's RPC client."""
    with contextlib.closing(Peer(tmp_path_factory.mktemp('client'))) as made:
        made.wait_ready()
        yield made


@pytest.fixture
def client(peer, cloud, scheduler):
    """The client for the scheduler."""
    return Client(peer, cloud.transport_url)


@pytest.mark.parametrize('form', FORMS)
def test_a_request_of_each_form_is_answered(cloud, client, form):
    options = FORMS[form]
    reply = client.select(**options)
    if form.startswith('objects'):
        name, ((best, *alternates),) = 'service_host', reply.answer
    else:
        name, (best, *alternates) = 'host', reply.answer
    assert best[name] in cloud.computes
    assert len(alternates) == (form == 'objects with alternates')
    held = cloud.held(reply.uuid)
    assert list(held) == ([] if form in WITHOUT_UUIDS else [best[name]])
    if held:
        cloud._placement.request('DELETE', f'/allocations/{reply.uuid}')
    with pytest.raises(PeerError) as raised:
        client.select(flavor={'vcpus': 64}, **options)
    assert raised.value.name == 'NoValidHost'


def test_casts_are_taken(client, scheduler):
    instances = [str(uuid.uuid4()) for _ in range(2)]
    client.run('update_instance_info', host='peer-1', uuids=instances)
    client.run('sync_instance_info', host='peer-1', uuids=instances[:1])
    client.run('delete_instance_info', host='peer-1', uuid=instances[0])
    aggregate = {
        'id': 9,
        'uuid': instances[0],
        'name': 'a',
        'hosts': [],
        'metadata': {},
    }
    client.run('update_aggregates', aggregates=[aggregate])
    client.run('delete_aggregate', aggregate=aggregate)
    answer = client.run('ping', arg='all', timeout=20)
    assert answer == {'service': 'scheduler', 'arg': 'all'}
    assert 'Traceback' not in scheduler.log

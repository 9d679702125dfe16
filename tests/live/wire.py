# SPDX-License-Identifier: Apache-2.0
"""Requests on the wire without any client library: any bytes, any envelope."""

import contextlib
import copy
import json
import time
import uuid

import amqp

from tests.differential.primitives import primitive
from tests.live.servers.rabbitmq import vhost_of

EXCHANGE = 'nova'
TOPIC = 'scheduler'
ANSWER_S = 60
CONTEXT = {
    'user_id': 'c0ffee00c0ffee00c0ffee00c0ffee00',
    'project_id': '6f70656e737461636b20444556204954',
    'is_admin': False,
    'roles': ['member', 'reader'],
    'request_id': 'req-3dccb8c4-08fe-4706-a91d-e843b8fe9ed2',
    'read_deleted': 'no',
}


def message(method='select_destinations', args=None, version='4.5'):
    """The inner message of a call without its ids."""
    context = {f'_context_{key}': value for key, value in CONTEXT.items()}
    return {'method': method, 'args': args or {}, 'version': version, **context}


def envelope(inner):
    """The body that carries an inner message."""
    return json.dumps({'oslo.version': '2.0', 'oslo.message': json.dumps(inner)})


def boot_args(uuids):
    """The arguments of an ordinary boot."""
    return {
        'instance_uuids': list(uuids),
        'return_objects': True,
        'return_alternates': True,
        'spec_obj': primitive('RequestSpec', '1.15', **_spec_fields(uuids[0])),
    }


def _spec_fields(first):
    flavor = {
        'id': 1,
        'name': 'live.small',
        'memory_mb': 2048,
        'vcpus': 1,
        'root_gb': 20,
        'ephemeral_gb': 0,
        'flavorid': 'live',
        'swap': 0,
        'rxtx_factor': 1.0,
        'vcpu_weight': 0,
        'disabled': False,
        'is_public': True,
        'extra_specs': {},
    }
    image = {
        'id': '11111111-2222-4333-8444-555555555555',
        'disk_format': 'qcow2',
        'properties': primitive('ImageMetaProps', '1.44'),
    }
    return {
        'image': primitive('ImageMeta', '1.8', **image),
        'flavor': primitive('Flavor', '1.2', **flavor),
        'project_id': CONTEXT['project_id'],
        'user_id': CONTEXT['user_id'],
        'instance_uuid': first,
        'num_instances': 1,
        'availability_zone': None,
        'numa_topology': None,
        'pci_requests': primitive(
            'InstancePCIRequests', '1.1', instance_uuid=first, requests=[]
        ),
        'ignore_hosts': None,
        'force_hosts': None,
        'force_nodes': None,
        'requested_destination': None,
        'requested_resources': [],
        'retry': None,
        'limits': None,
        'instance_group': None,
        'scheduler_hints': {},
        'is_bfv': False,
    }


def changed(args, path, value):
    """A copy of arguments with one value changed; a missing value is removed.

    The path is dotted; `spec.x` means the field x of the RequestSpec.
    """
    args = copy.deepcopy(args)
    *parents, last = path.split('.')
    place = args
    for name in parents:
        place = place['spec_obj']['nova_object.data'] if name == 'spec' else place[name]
    if value is MISSING:
        del place[last]
    else:
        place[last] = value
    return args


MISSING = object()


def _answer_of(message):
    """The answer that a message of a reply queue carries."""
    return json.loads(json.loads(message.body)['oslo.message'])


class Wire:
    """A connection to one virtual host with a reply queue of its own.

    The queue goes with the connection, or ``stays`` for a while, as that of a client of
    oslo.messaging.
    """

    def __init__(self, broker, url, stays=False):
        self._broker = broker
        self._vhost = vhost_of(url)
        self._stays = stays
        self._reply_queue = f'reply_{uuid.uuid4().hex}'
        self.connect()

    def connect(self):
        """Connect, also once more after a close."""
        self._holder = self._broker.connect(self._vhost)
        self._connection = self._holder.__enter__()
        self._channel = self._connection.channel()
        options = {'exclusive': True}
        if self._stays:
            options = {'auto_delete': False, 'arguments': {'x-expires': 1800_000}}
        self._channel.queue_declare(self._reply_queue, **options)
        self._answers = []
        self._channel.basic_consume(
            self._reply_queue, callback=self._answers.append, no_ack=True
        )

    def publish(self, body):
        """Put a body into the scheduler's queue."""
        self._channel.basic_publish(
            amqp.Message(
                body,
                content_type='application/json',
                content_encoding='utf-8',
                delivery_mode=2,
                priority=0,
                expiration=str(ANSWER_S * 1000),
            ),
            exchange=EXCHANGE,
            routing_key=TOPIC,
        )

    def send(self, inner, timeout_s=None):
        """Send an inner message as a call and give its id."""
        msg_id = uuid.uuid4().hex
        self.publish(
            envelope(
                {
                    **inner,
                    '_msg_id': msg_id,
                    '_reply_q': self._reply_queue,
                    '_timeout': timeout_s,
                    '_unique_id': uuid.uuid4().hex,
                }
            )
        )
        return msg_id

    def next_answer(self, msg_id):
        """Wait for the next message that answers a call."""
        deadline = time.monotonic() + ANSWER_S
        while True:
            while self._answers:
                answer = _answer_of(self._answers.pop(0))
                if answer['_msg_id'] == msg_id:
                    return answer
            assert time.monotonic() < deadline, f'no answer to {msg_id}'
            with contextlib.suppress(TimeoutError):
                self._connection.drain_events(timeout=1)

    def answers(self, msg_id):
        """Give every message that answers a call, the final one last."""
        found = [self.next_answer(msg_id)]
        while not found[-1]['ending']:
            found.append(self.next_answer(msg_id))
        return found

    def ended(self):
        """Give the ids of the calls whose final answers came since the last time."""
        with contextlib.suppress(TimeoutError):
            self._connection.drain_events(timeout=0.1)
        found = [_answer_of(each) for each in self._answers]
        self._answers.clear()
        return [answer['_msg_id'] for answer in found if answer['ending']]

    def call(self, inner, timeout_s=None):
        """Send a call; give (result, failure), one of which is None."""
        final = self.answers(self.send(inner, timeout_s))[-1]
        failure = final['failure']
        return final['result'], json.loads(failure) if failure else None

    def close(self):
        """Close the connection."""
        self._holder.__exit__(None, None, None)

# SPDX-License-Identifier: Apache-2.0
"""The kinds of queues that oslo.messaging makes, as the options say."""

import pytest

from tests.live.peer import PeerError

pytestmark = pytest.mark.ours

QUORUM = {'rabbit_quorum_queue': 'true', 'rabbit_transient_quorum_queue': 'true'}
STREAMS = {
    **QUORUM,
    'rabbit_stream_fanout': 'true',
    'rabbit_qos_prefetch_count': '10',
    'use_queue_manager': 'true',
}
SSD = {'aggregate_instance_extra_specs:ssd': 'true'}
FILTERS = 'ComputeFilter,ComputeCapabilitiesFilter,AggregateInstanceExtraSpecsFilter'
FAST = {
    'id': 78,
    'uuid': '0f0e2d55-6d0b-4c39-8d7f-9f6a7d7e2f11',
    'name': 'fast',
    'hosts': ['node-4'],
    'metadata': {'ssd': 'true'},
}
WORKERS = 2
OTHER = pytest.mark.exhaustive('less than streams, or the other backend')


@pytest.mark.parametrize(
    ('options', 'backend'),
    [
        pytest.param(STREAMS, 'threading', id='streams, among threads'),
        pytest.param(QUORUM, 'threading', id='quorum queues', marks=OTHER),
        pytest.param(STREAMS, 'eventlet', id='streams, under eventlet', marks=OTHER),
    ],
)
@pytest.mark.scenario('F12', 'I3', 'I4')
def test_calls_are_answered_and_casts_reach_every_worker(
    daemon, rabbitmq, claims, eventually, options, backend
):
    queues = daemon(
        DEFAULT={
            'transport_url': rabbitmq.create_vhost(**options),
            'concurrency_backend': backend,
        },
        filter_scheduler={'enabled_filters': FILTERS},
        scheduler={'workers': WORKERS},
    )
    eventually(
        lambda: rabbitmq.queue(queues.url, 'scheduler')[1] == WORKERS, 'all workers'
    )

    def places():
        """Where the fast host is asked for, by each worker some time."""
        return {_place(queues.client) for _ in range(4 * WORKERS)}

    reply = queues.client.select()
    claims.expect(reply.uuid)
    assert places() == {None}
    queues.client.run('update_aggregates', aggregates=[FAST])
    eventually(lambda: places() == {'node-4'}, 'the aggregate, in every worker')
    # The driver logs a connection that it loses and opens again.
    lines = queues.log.splitlines()
    own = [line for line in lines if 'oslo_utils.excutils' not in line]
    assert 'Traceback' not in '\n'.join(own)


def _place(client):
    try:
        (found,) = client.select(level='4.3', flavor={'extra_specs': SSD}).answer
    except PeerError as problem:
        return {'NoValidHost': None}[problem.name]
    return found['host']

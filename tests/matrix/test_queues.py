# SPDX-License-Identifier: Apache-2.0
"""Both schedulers on one queue of a broker with TLS, declared as the files say."""

from __future__ import annotations

import contextlib
import json
import subprocess

import pytest

from tests.live.peer import Client, Peer
from tests.live.servers.process import wait_until
from tests.live.servers.rabbitmq import vhost_of

NOTIFICATIONS = 'versioned_notifications.info'
SCHEDULERS = ('theirs', 'ours')


@pytest.fixture(scope='module')
def tls(tmp_path_factory, rabbitmq):
    """The port of the broker that speaks TLS, its certificate and the key."""
    where = tmp_path_factory.mktemp('tls')
    words = ['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes']
    words += ['-subj', '/CN=broker', '-addext', 'subjectAltName=IP:127.0.0.1']
    words += ['-keyout', where / 'key.pem', '-out', where / 'cert.pem']
    subprocess.run(words, check=True, capture_output=True)
    cert, key = where / 'cert.pem', where / 'key.pem'
    return rabbitmq.listen_tls(cert, key), cert, key


def present_names(cert, key, url, is_quorum):
    """What today's libraries read."""
    queues = {'rabbit_quorum_queue': True, 'rabbit_quorum_max_memory_length': 5000}
    return {
        'oslo_messaging_rabbit': {
            'ssl': True,
            'ssl_ca_file': cert,
            'ssl_cert_file': cert,
            'ssl_key_file': key,
            **(queues if is_quorum else {'amqp_durable_queues': True}),
        },
        'oslo_messaging_notifications': {'driver': 'messagingv2'},
    }


def old_names(cert, key, url, is_quorum):
    """The same, and more, by every name that only those of nova 29 and 30 read."""
    queues = {
        'rabbit_quorum_queue': True,
        'rabbit_quroum_max_memory_length': 5000,
        'rabbit_quroum_max_memory_bytes': 1 << 20,
    }
    durable = {'amqp_durable_queues': True}
    return {
        'DEFAULT': {
            'amqp_auto_delete': not is_quorum,
            'rabbit_ha_queues': not is_quorum,
            'kombu_reconnect_delay': 1.5,
            'rabbit_login_method': 'PLAIN',
            'rabbit_retry_backoff': 3,
            'rpc_conn_pool_size': 20,
            'conn_pool_min_size': 1,
            'conn_pool_ttl': 900,
            'notification_driver': 'messagingv2',
            'notification_topics': 'notifications',
            'notification_transport_url': url,
        },
        'oslo_messaging_rabbit': {
            'rabbit_use_ssl': True,
            'kombu_ssl_version': 'TLSv1_2',
            'kombu_ssl_ca_certs': cert,
            'kombu_ssl_certfile': cert,
            'kombu_ssl_keyfile': key,
            **(queues if is_quorum else durable),
        },
    }


@pytest.fixture
def url(rabbitmq, tls):
    """A virtual host, by way of TLS."""
    return rabbitmq.create_vhost().replace(f':{rabbitmq.port}/', f':{tls[0]}/')


@pytest.fixture
def sections(url, tls, release, request):
    """The sections of the files: old names where the libraries of the release read
    them, but for queues that are misspelt, which 31 reads, too."""
    is_quorum = request.param == 'quorum'
    make = old_names if release.reads_old_messaging_names else present_names
    found = make(*tls[1:], url, is_quorum)
    if release.reads_misspelt_messaging_names:
        options = found['oslo_messaging_rabbit']
        if options.pop('rabbit_quorum_max_memory_length', None):
            options['rabbit_quroum_max_memory_length'] = 5000
    return {**found, 'notifications': {'notification_format': 'both'}}


@pytest.fixture
def both(cloud, url, sections):
    """Both schedulers, at work on one queue."""
    for name in SCHEDULERS:
        defaults = {'host': name, 'report_interval': 2, **sections.get('DEFAULT', {})}
        cloud.write_conf(
            cloud.dir / f'{name}.conf',
            transport_url=url,
            scheduler={'workers': 1},
            **{**sections, 'DEFAULT': defaults},
        )
    cloud.start_peer_scheduler('theirs')
    with contextlib.ExitStack() as stack:
        for name in SCHEDULERS:
            stack.callback(cloud.delete, 'cell0', 'services', host=name)
        stack.callback(cloud.stop_program, 'theirs')
        cloud.wait_consumed(url, 'scheduler.theirs', cloud['theirs'])
        process = cloud.start_scheduler(cloud.dir / 'ours.conf', name='ours')
        stack.callback(process.stop)
        cloud.wait_consumed(url, 'scheduler', process, 2)
        yield process


def labels(value):
    """Yield the name and version of each object in a notification."""
    if isinstance(value, dict):
        if 'nova_object.name' in value:
            yield value['nova_object.name'], value['nova_object.version']
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        yield from labels(each)


def heard(rabbitmq, url):
    """Take the notifications; return the labels of each by scheduler and event."""
    found = {name: {} for name in SCHEDULERS}
    with rabbitmq.connect(vhost_of(url)) as connection:
        channel = connection.channel()
        while message := channel.basic_get(NOTIFICATIONS, no_ack=True):
            body = json.loads(json.loads(message.body)['oslo.message'])
            name = body['publisher_id'].removeprefix('nova-scheduler:')
            event = body['event_type'], body['priority']
            found[name][event] = sorted(set(labels(body['payload'])))
    return found


@pytest.mark.parametrize('sections', ['durable', 'quorum'], indirect=True)
def test_both_serve_and_notify_alike(cloud, rabbitmq, url, both, sections, tmp_path):
    more = ''.join(
        f'[{name}]\n' + ''.join(f'{key} = {value}\n' for key, value in options.items())
        for name, options in sections.items()
    )
    found = {name: {} for name in SCHEDULERS}

    def have_both_answered():
        reply = client.select()
        cloud._placement.request('DELETE', f'/allocations/{reply.uuid}')
        for name, events in heard(rabbitmq, url).items():
            found[name].update(events)
        return all(
            ('scheduler.select_destinations.end', 'INFO') in events
            for events in found.values()
        )

    with contextlib.closing(Peer(tmp_path, more)) as peer:
        peer.wait_ready()
        client = Client(peer, url)
        wait_until(have_both_answered, 60, 'an answer of each')
    assert found['ours'] == found['theirs']

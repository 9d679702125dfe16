# SPDX-License-Identifier: Apache-2.0
"""Which notifications leave, in which form, and what a failing one does."""

import json
import logging
import pathlib
import uuid
from types import SimpleNamespace

import oslo_messaging
import pytest

from novasched import ports
from novasched.objects import base
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.rpc import notifications
from novasched.rpc.notifications import OPTS, Notifications
from tests.support.suite.waiting import eventually
from tests.support.tables.cases import cases

SAMPLES = pathlib.Path(__file__).parents[2] / 'samples'
WIRE = json.loads((SAMPLES / 'context.json').read_text())
CONTEXT = RequestContext.from_dict(WIRE)
SERVICE = ports.ServiceRow(
    id=3,
    uuid='5f414942-2170-48e6-9a95-4f524d5afe1b',
    host='ctl-2',
    binary='nova-scheduler',
    topic='scheduler',
    report_count=0,
    disabled=False,
    disabled_reason=None,
    forced_down=False,
    last_seen_up=None,
    version=74,
    created_at=None,
    updated_at=None,
)


def sampled(name):
    return json.loads((SAMPLES / 'notifications' / name).read_text())['message']


def simple_boot():
    path = SAMPLES / 'rpc' / '01-simple-boot.request.json'
    return base.parse(json.loads(path.read_text())['message']['args']['spec_obj'])


class Bus:
    """Makes notifiers in the place of oslo.messaging's, and keeps what they get."""

    def __init__(self):
        self.sent = []

    def notifier(self, name):
        def info(context, event_type, payload):
            if name == 'dead':
                raise OSError('connection refused')
            self.sent.append((name, event_type, context, payload))

        return SimpleNamespace(info=info)


class Unreadable(RequestSpec):
    """A request that nobody must look at."""

    def __contains__(self, name):
        raise AssertionError(f'{name} was read')


class Listener:
    """An endpoint that writes down every notification."""

    def __init__(self):
        self.heard = []

    def info(self, context, publisher_id, event_type, payload, metadata):
        self.heard.append(
            {
                'context': context,
                'publisher_id': publisher_id,
                'event_type': event_type,
                'payload': payload,
                **metadata,
            }
        )

    def wait_for(self, count):
        """Return the first notifications, once there are as many."""
        eventually(lambda: len(self.heard) >= count)
        assert len(self.heard) == count
        return self.heard


@pytest.fixture
def bus():
    return Bus()


@pytest.fixture
def conf(messaging_conf):
    """Return a configuration that publishes on the in-process transport."""
    for group, opts in OPTS.items():
        messaging_conf.register_opts(opts, group=group)
    oslo_messaging.get_notification_transport(messaging_conf, 'fake://').cleanup()
    group = 'oslo_messaging_notifications'
    messaging_conf.set_override('transport_url', 'fake://', group)
    messaging_conf.set_override('driver', ['messagingv2'], group)
    return messaging_conf


@pytest.fixture
def hear(conf):
    """Return a function that listens to topics."""
    started = []

    def hear(*topics):
        transport = oslo_messaging.get_notification_transport(conf)
        listener = Listener()
        targets = [oslo_messaging.Target(topic=topic) for topic in topics]
        server = oslo_messaging.get_notification_listener(
            transport, targets, [listener]
        )
        server.start()
        started.append((server, transport))
        return listener

    yield hear
    for server, transport in started:
        server.stop()
        transport.cleanup()


@pytest.fixture
def notify(conf):
    """Return a function that makes Notifications of a format."""
    made = []

    def notify(notification_format):
        conf.set_override('notification_format', notification_format, 'notifications')
        made.append(Notifications.from_conf(conf, 'ctl-1'))
        return made[-1]

    yield notify
    for each in made:
        each.close()


@cases(
    'legacy, versioned, order',
    ('unversioned', True, False, ['legacy']),
    ('versioned', False, True, ['versioned']),
    ('both, the legacy one first', True, True, ['legacy', 'versioned']),
    ('none', False, False, []),
)
def test_each_kind_is_sent_if_it_has_a_notifier(bus, legacy, versioned, order):
    sender = Notifications(
        bus.notifier('legacy') if legacy else None,
        bus.notifier('versioned') if versioned else None,
    )
    sender.select_destinations(CONTEXT, simple_boot(), 'start')
    assert [sent[0] for sent in bus.sent] == order
    assert {sent[1:3] for sent in bus.sent} <= {
        ('scheduler.select_destinations.start', CONTEXT)
    }


def test_without_notifiers_no_payload_is_built():
    sender = Notifications(None, None)
    sender.select_destinations(CONTEXT, Unreadable(), 'end')
    sender.service_created(SERVICE)


@cases('driver', ('unset', []), ('noop', ['noop']), ('empty and noop', ['', 'noop']))
def test_a_silent_driver_needs_no_payload(conf, notify, caplog, driver):
    conf.set_override('driver', driver, 'oslo_messaging_notifications')
    notify('both').select_destinations(CONTEXT, Unreadable(), 'end')
    assert [r for r in caplog.records if r.name.startswith('novasched')] == []


@cases(
    'option, expected',
    ('for ever is a few times', -1, notifications.RETRIES),
    ('never', 0, 0),
    ('as often as the operator says', 9, 9),
)
def test_a_request_does_not_wait_for_ever(conf, notify, option, expected):
    conf.set_override('retry', option, 'oslo_messaging_notifications')
    sender = notify('both')
    assert [n.retry for n in (sender._legacy, sender._versioned)] == [expected] * 2


@cases(
    'notification_format, topic, sample',
    ('unversioned', 'unversioned', 'notifications', '01-simple-boot.legacy.start.json'),
    (
        'versioned',
        'versioned',
        'versioned_notifications',
        '01-simple-boot.versioned.start.json',
    ),
)
def test_a_start_is_heard_as_sampled(hear, notify, notification_format, topic, sample):
    listener = hear(topic)
    wanted = sampled(sample)
    notify(notification_format).select_destinations(CONTEXT, simple_boot(), 'start')
    [heard] = listener.wait_for(1)
    assert heard['publisher_id'] == wanted['publisher_id']
    assert heard['event_type'] == wanted['event_type']
    assert uuid.UUID(heard['message_id'])
    assert len(heard['timestamp']) == len(wanted['timestamp'])
    if notification_format == 'unversioned':
        properties = wanted['payload']['request_spec']['instance_properties']
        properties['pci_requests']['_context'] = None
    assert heard['payload'] == wanted['payload']


def test_both_kinds_go_to_their_own_topics(conf, hear, notify):
    topics = ['versioned_notifications', 'audit']
    conf.set_override('versioned_notifications_topics', topics, 'notifications')
    legacy, versioned, audit = hear('notifications'), hear(topics[0]), hear(topics[1])
    sender = notify('both')
    for phase in ('start', 'end'):
        sender.select_destinations(CONTEXT, simple_boot(), phase)
    for listener in (legacy, versioned, audit):
        assert [heard['event_type'] for heard in listener.wait_for(2)] == [
            'scheduler.select_destinations.start',
            'scheduler.select_destinations.end',
        ]
    assert legacy.heard[0]['publisher_id'] == 'scheduler.ctl-1'
    assert audit.heard[0]['publisher_id'] == 'nova-scheduler:ctl-1'


def test_the_context_is_sent_redacted(hear, notify):
    listener = hear('notifications')
    notify('unversioned').select_destinations(CONTEXT, simple_boot(), 'start')
    context = listener.wait_for(1)[0]['context']
    assert context.pop('timestamp') != WIRE['timestamp']
    assert context == {
        key: value for key, value in WIRE.items() if key != 'timestamp'
    } | {'auth_token': None, 'remote_address': None, 'service_catalog': []}


def test_nothing_secret_is_sent(hear, notify):
    listener = hear('notifications', 'versioned_notifications')
    path = SAMPLES / 'rpc' / '07-resize-retry-ignore-hosts.request.json'
    args = json.loads(path.read_text())['message']['args']
    spec = base.parse(args['spec_obj'], CONTEXT)
    notify('both').select_destinations(CONTEXT, spec, 'start')
    said = json.dumps(listener.wait_for(2))
    assert WIRE['auth_token'] not in said
    assert 'secret' not in said


def test_notification_of_a_new_services_row_equals_novas_sample(bus):
    wanted = sampled('service-create.versioned.json')
    sender = Notifications(bus.notifier('legacy'), bus.notifier('versioned'))
    sender.service_created(SERVICE)
    [(name, event, context, payload)] = bus.sent
    assert (name, event, payload) == (
        'versioned',
        wanted['event_type'],
        wanted['payload'],
    )
    assert context.is_admin


def test_a_failing_notification_is_one_line_of_the_log(bus, caplog):
    sender = Notifications(bus.notifier('dead'), bus.notifier('versioned'))
    with caplog.at_level(logging.ERROR, logger=notifications.__name__):
        sender.select_destinations(CONTEXT, simple_boot(), 'start')
    assert [record.getMessage() for record in caplog.records] == [
        'No notification scheduler.select_destinations.start: '
        'OSError: connection refused'
    ]
    assert [sent[0] for sent in bus.sent] == ['versioned']


def test_request_with_a_failed_notification_is_still_served(bus, caplog):
    sender = Notifications(bus.notifier('legacy'), None)
    with caplog.at_level(logging.ERROR, logger=notifications.__name__):
        sender.select_destinations(CONTEXT, Unreadable(), 'start')
    assert 'was read' in caplog.text


def test_old_names_of_options_are_read(messaging_conf, tmp_path):
    old = tmp_path / 'nova.conf'
    old.write_text(
        '[DEFAULT]\nnotification_format = both\ndefault_notification_level = WARN\n'
    )
    messaging_conf.reset()
    for group, opts in OPTS.items():
        messaging_conf.register_opts(opts, group=group)
    messaging_conf(['--config-file', str(old)])
    assert messaging_conf.notifications.notification_format == 'both'
    assert messaging_conf.notifications.default_level == 'WARN'

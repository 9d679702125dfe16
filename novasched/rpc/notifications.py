# SPDX-License-Identifier: Apache-2.0
"""Notifications of the scheduler, to all that listen on the bus."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import oslo_messaging  # type: ignore[import-untyped]
from oslo_config import cfg

from novasched import ports
from novasched.objects import context as contexts
from novasched.objects import notifications as payloads
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.releases import NEWEST, Release
from novasched.rpc.serializer import RequestSerializer

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'notifications': [
        cfg.StrOpt(
            'notification_format',
            default='unversioned',
            choices=[
                ('unversioned', 'Only the legacy notifications are sent'),
                ('versioned', 'Only the versioned notifications are sent'),
                ('both', 'Both kinds are sent, the legacy one first'),
            ],
            deprecated_group='DEFAULT',
            help="""
Which form notifications have.

Nothing is sent at all unless ``[oslo_messaging_notifications] driver`` is set.
Requests wait until their notifications are sent. So if ``retry`` of that group is
negative, which means for ever, the scheduler tries only twice more. By the defaults of
``[oslo_messaging_rabbit]`` it does so after 1 and 3 seconds. Failures are logged.
Versioned notifications are described by nova's notification reference;
``versioned_notifications_topics`` has their topics.
""",
        ),
        cfg.ListOpt(
            'versioned_notifications_topics',
            default=['versioned_notifications'],
            help="""
The topics of versioned notifications.

Every notification goes to every topic, in the queue ``<topic>.<priority>``. Each
topic should have a consumer: a queue without a consumer grows without end.
""",
        ),
        cfg.StrOpt(
            'default_level',
            default='INFO',
            choices=['DEBUG', 'INFO', 'WARN', 'ERROR', 'CRITICAL'],
            deprecated_group='DEFAULT',
            deprecated_name='default_notification_level',
            help="""
The priority of notifications that do not set their own.

All notifications of the scheduler set their own, INFO; the option is read by
other services that share the configuration file.
""",
        ),
    ],
}

RETRIES = 2
"""Instead of for ever: a request waits for its notifications, its claims made."""

UNSAID = ('id', 'created_at', 'updated_at')
_SILENT_DRIVERS = frozenset({'', 'noop'})


def topics(conf: cfg.ConfigOpts) -> list[str]:
    """Return the topics that notifications are sent to; none if they are not sent."""
    options = conf.oslo_messaging_notifications
    if _SILENT_DRIVERS.issuperset(options.driver):
        return []
    form, found = conf.notifications.notification_format, []
    if form in ('unversioned', 'both'):
        found += options.topics
    if form in ('versioned', 'both'):
        found += conf.notifications.versioned_notifications_topics
    return list(dict.fromkeys(found))


class Notifications:
    """Sends both kinds of notifications; a kind whose notifier is None is off.

    The notifiers are oslo.messaging's, or anything with their ``info``. What
    goes wrong here is logged, and never fails the request.
    """

    image_props = NEWEST.image_props_payload

    def __init__(self, legacy: Any, versioned: Any, transport: Any = None) -> None:
        self._legacy = legacy
        self._versioned = versioned
        self._transport = transport

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, host: str) -> Notifications:
        """Make one that publishes in the name of a host; close() it when done."""
        transport = oslo_messaging.get_notification_transport(conf)
        drivers = conf.oslo_messaging_notifications.driver
        if _SILENT_DRIVERS.issuperset(drivers):
            transport.cleanup()
            return cls(None, None)
        form = conf.notifications.notification_format
        topics = conf.notifications.versioned_notifications_topics
        wanted = conf.oslo_messaging_notifications.retry
        sending = {
            'serializer': RequestSerializer(),
            'retry': RETRIES if wanted < 0 else wanted,
        }
        legacy = versioned = None
        if form in ('unversioned', 'both'):
            legacy = oslo_messaging.Notifier(transport, f'scheduler.{host}', **sending)
        if form in ('versioned', 'both'):
            versioned = oslo_messaging.Notifier(
                transport, f'nova-scheduler:{host}', topics=topics, **sending
            )
        return cls(legacy, versioned, transport)

    def of_release(self, release: Release) -> Notifications:
        """Return one that sends the payloads of a release, by the same connections."""
        made = Notifications(self._legacy, self._versioned, self._transport)
        made.image_props = release.image_props_payload
        return made

    def close(self) -> None:
        if self._transport is not None:
            self._transport.cleanup()

    def select_destinations(
        self, context: RequestContext, spec: RequestSpec, phase: str
    ) -> None:
        """Tell that a request starts or ends being scheduled; see ports.Notifier."""
        event = f'scheduler.select_destinations.{phase}'

        def legacy() -> dict[str, Any]:
            return {'request_spec': payloads.legacy_request_spec(spec)}

        def versioned() -> dict[str, Any]:
            return payloads.request_spec(spec, self.image_props)

        self._send(self._legacy, context, event, legacy)
        self._send(self._versioned, context, event, versioned)

    def service_created(self, service: ports.ServiceRow) -> None:
        """Tell that this program added its own services row."""
        row = service._asdict()
        said = {name: row[name] for name in row if name not in UNSAID}

        def created() -> dict[str, Any]:
            return payloads.service_status(**said, availability_zone=None)

        self._send(self._versioned, contexts.admin(), 'service.create', created)

    def _send(
        self,
        notifier: Any,
        context: RequestContext,
        event: str,
        payload: Callable[[], dict[str, Any]],
    ) -> None:
        if notifier is None:
            return
        try:
            notifier.info(context, event, payload())
        except Exception as error:  # noqa: BLE001
            LOG.error('No notification %s: %s: %s', event, type(error).__name__, error)

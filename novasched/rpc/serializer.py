# SPDX-License-Identifier: Apache-2.0
"""Objects and contexts to and from what a message can carry.

The server leaves arguments as they came: its endpoint decodes them itself, so
that a bad one becomes one log line and a typed error. An object that is too new for
us is sent to a conductor, which makes an older one of it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

import oslo_messaging  # type: ignore[import-untyped]
from oslo_config import cfg
from oslo_versionedobjects import base as ovo
from oslo_versionedobjects import exception as ovo_exception

from novasched import errors
from novasched.objects import base
from novasched.objects.context import RequestContext
from novasched.parsing import NestedTooDeep, bounded_depth

LOG = logging.getLogger(__name__)

CONDUCTOR = oslo_messaging.Target(topic='conductor', version='3.0')

OPTS: dict[str, list[cfg.Opt]] = {
    'upgrade_levels': [
        cfg.StrOpt(
            'conductor',
            help="""
The newest version of nova-conductor's RPC interface that is used.

A version such as ``3.0``, or the name of a release. A name, and ``auto``, set no
limit here: the only method that the scheduler calls is older than all of them.
""",
        ),
    ],
}

Primitive = dict[str, Any]
Backport = Callable[[RequestContext, Primitive, Mapping[str, str]], Primitive]
"""Returns an object in the versions that we know, by name of object; raises
MessagingException."""


class RequestSerializer(oslo_messaging.Serializer):  # type: ignore[misc]
    """Writes contexts and objects; reads contexts, and leaves arguments raw."""

    def serialize_context(self, ctxt: RequestContext | Primitive) -> Primitive:
        """Return the wire form; a dict, such as a redacted nothing, is one."""
        return ctxt if isinstance(ctxt, dict) else ctxt.to_dict()

    def deserialize_context(self, ctxt: Mapping[str, Any]) -> RequestContext:
        """Read a context; raises errors.InvalidRequest for nonsense in it."""
        try:
            return RequestContext.from_dict(
                {key: value for key, value in ctxt.items() if key != 'trace_info'}
            )
        except (ValueError, TypeError, AttributeError) as problem:
            raise errors.InvalidRequest(f'its context: {problem}') from problem

    def serialize_entity(self, ctxt: RequestContext, entity: Any) -> Any:
        """Return the entity with all objects in it as primitives."""
        return encode(entity)

    def deserialize_entity(self, ctxt: RequestContext, entity: Any) -> Any:
        """Return the entity as it came."""
        return entity


def encode(value: Any) -> Any:
    """Return a value with objects as primitives; sets and tuples become lists."""
    if isinstance(value, ovo.VersionedObject):
        return value.obj_to_primitive()
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [encode(item) for item in value]
    return value


def decode(
    value: Any, context: RequestContext | None, backport: Backport | None = None
) -> Any:
    """Return a value with every primitive of an object in it read.

    A whole or inner object that is newer than we know is asked for through
    ``backport``. If that fails, additions of a newer minor version are ignored. Raises
    errors.InvalidRequest for another major version, a bad field or what is nested too
    deep. Raises errors.UnsupportedObject for an unknown name.
    """
    try:
        with bounded_depth():
            return _decode(value, context, backport)
    except NestedTooDeep as problem:
        raise errors.InvalidRequest(str(problem)) from problem


def _decode(
    value: Any, context: RequestContext | None, backport: Backport | None
) -> Any:
    if isinstance(value, dict):
        if base.NAME in value:
            return _decode_object(value, context, backport)
        return {key: _decode(item, context, backport) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_decode(item, context, backport) for item in value]
    return value


def _decode_object(
    primitive: Primitive, context: RequestContext | None, backport: Backport | None
) -> base.NovaObject:
    try:
        return base.parse(primitive, context)
    except ovo_exception.IncompatibleObjectVersion as error:
        newer = error
    if context is not None and backport is not None:
        try:
            versions = base.versions_of(primitive[base.NAME])
            return base.parse(backport(context, primitive, versions), context)
        except (
            oslo_messaging.MessagingException,
            ovo_exception.IncompatibleObjectVersion,
        ) as error:
            LOG.warning('The conductor gave no older form of an object: %s', error)
    try:
        made = base.parse(primitive, context, accept_newer=True)
    except ovo_exception.IncompatibleObjectVersion as error:
        raise errors.InvalidRequest(str(error)) from error
    LOG.warning('%s; what it adds is ignored', newer)
    return made


def conductor_backport(conf: cfg.ConfigOpts, transport: Any) -> Backport:
    """Return backports by a conductor, which waits ``rpc_response_timeout`` for each.

    They raise MessagingException when it does not answer or cannot do it.
    """
    cap = conf.upgrade_levels.conductor
    client = oslo_messaging.get_rpc_client(
        transport,
        CONDUCTOR,
        version_cap=cap if re.fullmatch(r'\d+\.\d+', cap or '') else None,
        serializer=RequestSerializer(),
    )

    def backport(
        context: RequestContext, primitive: Primitive, versions: Mapping[str, str]
    ) -> Primitive:
        answer: Primitive = client.call(
            context,
            'object_backport_versions',
            objinst=primitive,
            object_versions=dict(versions),
        )
        return answer

    return backport

# SPDX-License-Identifier: Apache-2.0
"""Objects and contexts to and from what a message can carry.

The server leaves arguments as they came: its endpoint decodes them itself, so
that a bad one becomes one log line and a typed error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import oslo_messaging  # type: ignore[import-untyped]
from oslo_versionedobjects import base as ovo
from oslo_versionedobjects import exception as ovo_exception

from novasched import errors
from novasched.objects import base
from novasched.objects.context import RequestContext

LOG = logging.getLogger(__name__)

Primitive = dict[str, Any]
Backport = Callable[[RequestContext, Primitive, Mapping[str, str]], Primitive]
"""Asks for an object in versions that we know; raises MessagingException."""


class RequestSerializer(oslo_messaging.Serializer):  # type: ignore[misc]
    """Writes contexts and objects; reads contexts, and leaves arguments raw."""

    def serialize_context(self, ctxt: RequestContext | Primitive) -> Primitive:
        """Return the wire form; a dict, such as a redacted nothing, is one."""
        return ctxt if isinstance(ctxt, dict) else ctxt.to_dict()

    def deserialize_context(self, ctxt: Mapping[str, Any]) -> RequestContext:
        """Read a context; raises ValueError for nonsense in it."""
        return RequestContext.from_dict(
            {key: value for key, value in ctxt.items() if key != 'trace_info'}
        )

    def serialize_entity(self, ctxt: RequestContext, entity: Any) -> Any:
        """Return the entity with all objects in it as primitives."""
        return encode(entity)

    def deserialize_entity(self, ctxt: RequestContext, entity: Any) -> Any:
        """Return the entity as it came."""
        return entity


class ClientSerializer(RequestSerializer):
    """Also turns results into objects, for programs that call a server."""

    def __init__(self, backport: Backport | None = None) -> None:
        self._backport = backport

    def deserialize_entity(self, ctxt: RequestContext, entity: Any) -> Any:
        """Return the entity with all objects in it read; raises as decode()."""
        return decode(entity, ctxt, self._backport)


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

    An object that is newer than we know, inside or as a whole, is asked for
    through ``backport``; if that fails, what a newer minor version added is
    ignored. Raises errors.InvalidRequest for another major version, a bad field or
    what is nested too deep, and errors.UnsupportedObject for a name that is unknown.
    """
    try:
        return _decode(value, context, backport)
    except RecursionError:
        raise errors.InvalidRequest('it is nested too deep') from None


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
    if context is None or backport is None:
        return _decode_newer(primitive, context, newer)
    try:
        versions = base.versions_of(primitive[base.NAME])
        return base.parse(backport(context, primitive, versions), context)
    except (
        oslo_messaging.MessagingException,
        ovo_exception.IncompatibleObjectVersion,
    ) as error:
        LOG.warning('The conductor gave no older form of an object: %s', error)
        return _decode_newer(primitive, context, newer)


def _decode_newer(
    primitive: Primitive,
    context: RequestContext | None,
    newer: ovo_exception.IncompatibleObjectVersion,
) -> base.NovaObject:
    try:
        made = base.parse(primitive, context, accept_newer=True)
    except ovo_exception.IncompatibleObjectVersion as error:
        raise errors.InvalidRequest(str(error)) from error
    LOG.warning('%s; what it adds is ignored', newer)
    return made

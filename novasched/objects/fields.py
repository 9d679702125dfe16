# SPDX-License-Identifier: Apache-2.0
"""The kinds of fields: how each is checked, folded and written.

They are used in class bodies, ``host: str = fields.string()``, and give Any, so that
the annotation is what readers of the attribute see.
"""

from __future__ import annotations

import functools
import uuid as uuids
from collections.abc import Collection, Mapping
from typing import Any

from oslo_versionedobjects import fields as ovo

Field = ovo.Field
_NONE_GIVEN: Any = ovo.UnspecifiedDefault


class UUID(ovo.FieldType[str]):
    """Text that should be a uuid; nova does not check it, so we must not."""

    def coerce(self, obj: Any, attr: str, value: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, uuids.UUID | int):
            return str(value)
        kind = type(value).__name__
        raise ValueError(f'A uuid is required in field {attr}, not a {kind}')


class FoldedEnum(ovo.Enum):
    """One of some words, in any case, some of which have other names."""

    def __init__(
        self, values: Collection[str], aliases: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(values)
        self._aliases = aliases or {}

    def coerce(self, obj: Any, attr: str, value: Any) -> str:
        if isinstance(value, str):
            folded = value.lower()
            value = self._aliases.get(folded, folded)
        return super().coerce(obj, attr, value)


class List(ovo.List[Any]):
    """A list; text is not taken for a list of letters."""

    def from_primitive(self, obj: Any, attr: str, value: Any) -> list[Any]:
        return super().from_primitive(obj, attr, _array(attr, value))


class Set(ovo.Set[Any]):
    """A set, written as an array without order."""

    def from_primitive(self, obj: Any, attr: str, value: Any) -> set[Any]:
        return super().from_primitive(obj, attr, _array(attr, value))


def _array(attr: str, value: Any) -> Any:
    if isinstance(value, list | tuple | set | frozenset):
        return value
    kind = type(value).__name__
    raise ValueError(f'An array is required in field {attr}, not a {kind}')


class Integer(ovo.Integer):
    """A whole number of 64 bits at most, as every database column holds."""

    def coerce(self, obj: Any, attr: str, value: Any) -> int:
        number: int = super().coerce(obj, attr, value)
        if not -(2**63) <= number < 2**63:
            raise ValueError(f'The number in field {attr} is too large')
        return number


def field(
    kind: ovo.FieldType[Any],
    nullable: bool = False,
    default: Any = _NONE_GIVEN,
    read_only: bool = False,
) -> Any:
    """Return a field of a kind made with the classes of this module."""
    return ovo.Field(kind, nullable=nullable, default=default, read_only=read_only)


_STRING = ovo.String()
INTEGER = Integer()
_UUID = UUID()
_NULLABLE_STRINGS = ovo.Dict(_STRING, nullable=True)

string = functools.partial(field, _STRING)  # numbers are taken as text
uuid = functools.partial(field, _UUID)  # as text, not checked
integer = functools.partial(field, INTEGER)  # digits are taken as one
real = functools.partial(field, ovo.Float())
boolean = functools.partial(field, ovo.Boolean())
flexible_boolean = functools.partial(
    field, ovo.FlexibleBoolean()
)  # also 'yes', 'off', '1'
timestamp = functools.partial(field, ovo.DateTime())  # UTC, written in whole seconds
ip = functools.partial(field, ovo.IPAddress())  # of either family, as netaddr.IPAddress
ipv4 = functools.partial(field, ovo.IPV4Address())
ipv6 = functools.partial(field, ovo.IPV6Address())
version_predicate = functools.partial(field, ovo.VersionPredicate())  # '>=1.0,<2.0'
anything = functools.partial(field, ovo.FieldType())  # passed on as it came

strings = functools.partial(field, List(_STRING))
string_lists = functools.partial(field, List(List(_STRING)))
string_set = functools.partial(field, Set(_STRING))
string_dict = functools.partial(field, ovo.Dict(_STRING))
string_list_dict = functools.partial(field, ovo.Dict(List(_STRING)))
nullable_string_dict = functools.partial(field, _NULLABLE_STRINGS)  # values may be None
nullable_string_dicts = functools.partial(
    field, List(_NULLABLE_STRINGS)
)  # a list of these
uuid_list = functools.partial(field, List(_UUID))
integers = functools.partial(field, List(INTEGER))
integer_set = functools.partial(field, Set(INTEGER))
integer_sets = functools.partial(field, List(Set(INTEGER)))
integer_dict = functools.partial(field, ovo.Dict(INTEGER))


def enum(*values: str, **rules: Any) -> Any:
    """One of some words."""
    return field(ovo.Enum(values), **rules)


def object_of(name: str, **rules: Any) -> Any:
    """An object of the class of this name."""
    return ovo.ObjectField(name, **rules)


def objects_of(name: str, **rules: Any) -> Any:
    """A list of objects of the class of this name."""
    made = ovo.ListOfObjectsField(name, **rules)
    made._type = List(ovo.Object(name))
    return made

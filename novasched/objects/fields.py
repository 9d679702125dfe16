# SPDX-License-Identifier: Apache-2.0
"""The kinds of fields: how each is checked, folded and written.

The functions are used in class bodies, ``host: str = fields.string()``; they
are typed Any so that the annotation is what readers of the attribute see.
"""

from __future__ import annotations

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


STRING = ovo.String()
INTEGER = Integer()
UUID_TEXT = UUID()


def field(
    kind: ovo.FieldType[Any],
    nullable: bool = False,
    default: Any = _NONE_GIVEN,
    read_only: bool = False,
) -> Any:
    """Return a field of a kind made with the classes of this module."""
    return ovo.Field(kind, nullable=nullable, default=default, read_only=read_only)


def string(**rules: Any) -> Any:
    """Text; numbers are taken as text."""
    return field(STRING, **rules)


def integer(**rules: Any) -> Any:
    """A whole number; digits are taken as one."""
    return field(INTEGER, **rules)


def real(**rules: Any) -> Any:
    """A number with a fraction."""
    return field(ovo.Float(), **rules)


def boolean(**rules: Any) -> Any:
    """True or False."""
    return field(ovo.Boolean(), **rules)


def flexible_boolean(**rules: Any) -> Any:
    """True, False, or a word such as 'yes', 'off' or '1'."""
    return field(ovo.FlexibleBoolean(), **rules)


def uuid(**rules: Any) -> Any:
    """A uuid as text, not checked."""
    return field(UUID_TEXT, **rules)


def timestamp(**rules: Any) -> Any:
    """A time of day in UTC, written in whole seconds."""
    return field(ovo.DateTime(), **rules)


def ip(**rules: Any) -> Any:
    """An address of either family, as netaddr.IPAddress."""
    return field(ovo.IPAddress(), **rules)


def ipv4(**rules: Any) -> Any:
    """An IPv4 address, as netaddr.IPAddress."""
    return field(ovo.IPV4Address(), **rules)


def ipv6(**rules: Any) -> Any:
    """An IPv6 address, as netaddr.IPAddress."""
    return field(ovo.IPV6Address(), **rules)


def version_predicate(**rules: Any) -> Any:
    """Text such as '>=1.0,<2.0'."""
    return field(ovo.VersionPredicate(), **rules)


def enum(*values: str, **rules: Any) -> Any:
    """One of some words."""
    return field(ovo.Enum(values), **rules)


def folded_enum(
    values: Collection[str], aliases: Mapping[str, str] | None = None, **rules: Any
) -> Any:
    """One of some words in any case; ``aliases`` are in lower case."""
    return field(FoldedEnum(values, aliases), **rules)


def strings(**rules: Any) -> Any:
    """A list of texts."""
    return field(List(STRING), **rules)


def string_lists(**rules: Any) -> Any:
    """A list of lists of texts."""
    return field(List(List(STRING)), **rules)


def string_set(**rules: Any) -> Any:
    """A set of texts."""
    return field(Set(STRING), **rules)


def string_dict(**rules: Any) -> Any:
    """A dict from text to text."""
    return field(ovo.Dict(STRING), **rules)


def nullable_string_dict(**rules: Any) -> Any:
    """A dict from text to text or None."""
    return field(ovo.Dict(STRING, nullable=True), **rules)


def nullable_string_dicts(**rules: Any) -> Any:
    """A list of dicts from text to text or None."""
    return field(List(ovo.Dict(STRING, nullable=True)), **rules)


def string_list_dict(**rules: Any) -> Any:
    """A dict from text to a list of texts."""
    return field(ovo.Dict(List(STRING)), **rules)


def integers(**rules: Any) -> Any:
    """A list of whole numbers."""
    return field(List(INTEGER), **rules)


def integer_set(**rules: Any) -> Any:
    """A set of whole numbers."""
    return field(Set(INTEGER), **rules)


def integer_sets(**rules: Any) -> Any:
    """A list of sets of whole numbers."""
    return field(List(Set(INTEGER)), **rules)


def integer_dict(**rules: Any) -> Any:
    """A dict from text to whole numbers."""
    return field(ovo.Dict(INTEGER), **rules)


def uuid_list(**rules: Any) -> Any:
    """A list of uuids as text."""
    return field(List(UUID_TEXT), **rules)


def object_of(name: str, **rules: Any) -> Any:
    """An object of the class of this name."""
    return ovo.ObjectField(name, **rules)


class _Objects(ovo.ListOfObjectsField):
    def __init__(self, name: str, **rules: Any) -> None:
        super().__init__(name, **rules)
        self._type = List(ovo.Object(name))


def objects_of(name: str, **rules: Any) -> Any:
    """A list of objects of the class of this name."""
    return _Objects(name, **rules)


def anything(**rules: Any) -> Any:
    """A value that is passed on as it came."""
    return field(ovo.FieldType(), **rules)

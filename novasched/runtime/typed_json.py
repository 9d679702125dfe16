# SPDX-License-Identifier: Apache-2.0
"""Dataclasses as JSON, and back."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar

from novasched.runtime.times import TIME, time_at, time_of

Value = TypeVar('Value')


def omitted_field() -> Any:
    """Return a field that is no part of the JSON while it is None."""
    return field(default=None, metadata={'is_omitted': True})


def renamed_field(name: str) -> Any:
    """Return a field whose name in JSON is a keyword of Python."""
    return field(metadata={'name': name})


def time_field() -> Any:
    """Return a field of microseconds since 1970 that is ISO 8601 in JSON."""
    return field(metadata={'is_time': True})


def to_json(value: Any) -> Any:
    """Return a dataclass, or a value of dataclasses, as JSON in the order of fields."""
    if value is None or isinstance(value, str | int | float):
        return value
    if is_dataclass(value):
        return {name: to_json(found) for name, found in as_map(value).items()}
    if isinstance(value, Mapping):
        return {name: to_json(found) for name, found in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(found) for found in value]
    return value


def as_map(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, as they are, by their names in JSON. Raises
    TypeError for what is no dataclass."""
    found = value.__dict__ if is_dataclass(value) else None
    if found is None:
        raise TypeError(f'{type(value).__name__} has no form in JSON')
    return {
        layout.name: time_of(found[layout.attribute], TIME)
        if layout.is_time
        else found[layout.attribute]
        for layout in _layouts(type(value))
        if not layout.is_omitted or found[layout.attribute] is not None
    }


def of_json(kind: type[Value], value: Mapping[str, Any]) -> Value:
    """Return a dataclass of its JSON, without fields that are unknown here. Raises
    LookupError, TypeError and AttributeError for JSON of another form."""
    return kind(
        **{
            layout.attribute: time_at(value[layout.name])
            if layout.is_time
            else _typed(layout.kind, value[layout.name])
            for layout in _layouts(kind)
            if layout.name in value
        }
    )


@dataclass(frozen=True)
class _Layout:
    """A field: its name in Python and in JSON."""

    attribute: str
    name: str
    kind: Any
    is_omitted: bool
    is_required: bool
    is_time: bool


def _layouts_of(kind: Any) -> tuple[_Layout, ...]:
    types = typing.get_type_hints(kind)
    return tuple(
        _Layout(
            each.name,
            each.metadata.get('name', each.name),
            None if _is_plain(types[each.name]) else types[each.name],
            'is_omitted' in each.metadata,
            each.default is MISSING and each.default_factory is MISSING,
            'is_time' in each.metadata,
        )
        for each in fields(kind)
    )


_layouts: Callable[[Any], tuple[_Layout, ...]] = functools.cache(_layouts_of)
_is_plain: Callable[[Any], bool] = functools.cache(
    lambda kind: (
        not is_dataclass(kind)
        and not hasattr(kind, '_fields')
        and all(map(_is_plain, typing.get_args(kind)))
    )
)


def _typed(kind: Any, value: Any) -> Any:
    """Return a value with the dataclasses that its type names, if there is a type."""
    if kind is None or value is None:
        return value
    inner = typing.get_args(kind)
    if typing.get_origin(kind) in (UnionType, typing.Union):
        return _typed(_chosen(inner, value), value)
    if is_dataclass(kind):
        return of_json(typing.cast(Any, kind), value)
    if hasattr(kind, '_fields'):
        return kind(*value)
    if isinstance(value, Mapping):
        return {name: _typed(inner[1], found) for name, found in value.items()}
    return [_typed(inner[0], found) for found in value]


def _chosen(kinds: Iterable[Any], value: Any) -> Any:
    """Return the first type of a union whose required fields are all there. Raises
    LookupError."""
    for kind in kinds:
        if kind is NoneType:
            continue
        needed = _layouts(kind) if is_dataclass(kind) else ()
        if all(each.name in value for each in needed if each.is_required):
            return kind
    raise LookupError('it lacks what is required')

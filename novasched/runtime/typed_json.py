# SPDX-License-Identifier: Apache-2.0
"""Dataclasses as JSON, and back."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Mapping
from dataclasses import field, fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar

Value = TypeVar('Value')


def omitted_field() -> Any:
    """Return a field that is no part of the JSON while it is None."""
    return field(default=None, metadata={'is_omitted': True})


def to_json(value: Any) -> Any:
    """Return a dataclass, or a value of dataclasses, as JSON in the order of fields."""
    if value is None or isinstance(value, str | int | float):
        return value
    if is_dataclass(value):
        omitted = _omitted(type(value))
        return {
            name: to_json(found)
            for name, found in vars(value).items()
            if found is not None or name not in omitted
        }
    if isinstance(value, Mapping):
        return {name: to_json(found) for name, found in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(found) for found in value]
    return value


def of_json(kind: type[Value], value: Mapping[str, Any]) -> Value:
    """Return a dataclass of its JSON, without fields that are unknown here."""
    types = _types(kind)
    return kind(**{n: _typed(t, value[n]) for n, t in types.items() if n in value})


_types: Callable[[Any], dict[str, Any]] = functools.cache(typing.get_type_hints)
_omitted: Callable[[Any], frozenset[str]] = functools.cache(
    lambda kind: frozenset(f.name for f in fields(kind) if f.metadata.get('is_omitted'))
)


def _typed(kind: Any, value: Any) -> Any:
    """Return a value with the dataclasses that its type names."""
    inner = typing.get_args(kind)
    if value is None or (not inner and not is_dataclass(kind)):
        return value
    if not inner:
        return of_json(kind, value)
    if typing.get_origin(kind) in (UnionType, typing.Union):
        return _typed(inner[0], value)
    if isinstance(value, Mapping):
        return {name: _typed(inner[1], found) for name, found in value.items()}
    return [_typed(inner[0], found) for found in value]

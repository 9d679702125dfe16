# SPDX-License-Identifier: Apache-2.0
"""What every object has in common: how it is declared, read and written.

A class declares its fields as annotated class attributes::

    @NovaObjectRegistry.register
    class Destination(NovaObject):
        VERSION = '1.4'
        host: str = fields.string()
        node: str | None = fields.string(nullable=True)

A field that was never set differs from one that is None; ``'host' in destination`` says
whether it is set. Reading an unset field gives its default, or its entry in
UNSET_DEFAULTS, or raises NotLoaded.
"""

from __future__ import annotations

import collections
import copy
import datetime
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeVar

from oslo_versionedobjects import base as ovo
from oslo_versionedobjects import exception as ovo_exception
from oslo_versionedobjects import fields as ovo_fields

from novasched import errors
from novasched.objects import fields
from novasched.parsing import NestedTooDeep, bounded_depth

NAME = 'nova_object.name'
NAMESPACE = 'nova_object.namespace'
VERSION = 'nova_object.version'
DATA = 'nova_object.data'
CHANGES = 'nova_object.changes'

_MISTYPED = (
    ValueError,
    TypeError,
    AttributeError,
    KeyError,
    OverflowError,
    RecursionError,
)

Item = TypeVar('Item', bound='NovaObject')


class NotLoaded(
    errors.UnsetField,
    NotImplementedError,
    ovo_exception.ObjectActionError,
    ovo_exception.OrphanedObjectError,
):
    """A field is unset, as plugins made for nova know it: it cannot be loaded."""


class NovaObjectRegistry(ovo.VersionedObjectRegistry):
    """Our classes by name, apart from the classes of other programs in the process.

    oslo's registry is one per process; a plugin that imports nova would replace our
    classes there by nova's.
    """

    _own: ClassVar[Any] = collections.defaultdict(list)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = object.__new__(cls)
        self._obj_classes = cls._own
        return self


_OF_DATABASE = (
    'get_all get_by_filters get_by_host get_by_host_and_node get_by_id '
    'get_by_instance_uuid get_by_name get_by_uuid get_hosts get_uuids_by_host refresh'
)


class _NeedsDatabase:
    """A method of nova's that reads or writes its database."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        raise AttributeError(
            f'novasched has no {owner.__name__}.{self._name}: nova has it, with '
            '[novasched] plugins_use_nova, where it is installed'
        )


class NovaObject(ovo.VersionedObject):
    """An object as it travels between nova's services."""

    OBJ_SERIAL_NAMESPACE = 'nova_object'
    OBJ_PROJECT_NAMESPACE = 'nova'

    UNSET_DEFAULTS: ClassVar[Mapping[str, Callable[[], Any]]] = {}
    """Makes what an unset field reads as, for fields without a default."""

    _attributes: ClassVar[Mapping[str, str]] = {}  # where fields are kept, by name

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        declared = {k: v for k, v in vars(cls).items() if isinstance(v, fields.Field)}
        cls.fields = {**cls.fields, **declared}
        cls._attributes = {name: f'_obj_{name}' for name in cls.fields}

    @classmethod
    def obj_class_from_name(
        cls, objname: str, objver: str
    ) -> type[ovo.VersionedObject]:
        """Return the class that reads this version of an object.

        Raises errors.UnsupportedObject for an unknown name and oslo's
        IncompatibleObjectVersion for a version that is not readable.
        """
        known = NovaObjectRegistry.obj_classes().get(objname)
        if not known:
            raise errors.UnsupportedObject(objname)
        if not known[0].reads(objver):  # type: ignore[attr-defined]
            raise ovo_exception.IncompatibleObjectVersion(
                objname=objname, objver=objver, supported=known[0].VERSION
            )
        return known[0]

    @classmethod
    def reads(cls, version: str) -> bool:
        """Return whether this class reads a version: same major, not newer."""
        major, minor = version_numbers(version)
        own_major, own_minor = version_numbers(cls.VERSION)
        return major == own_major and minor <= own_minor

    @classmethod
    def obj_from_primitive(cls, primitive: dict[str, Any], context: Any = None) -> Self:
        """Read an object; see parse() for what is raised."""
        _check_envelope(cls.obj_name(), primitive)
        name, version = primitive[NAME], primitive[VERSION]
        if primitive[NAMESPACE] != cls.OBJ_PROJECT_NAMESPACE:
            raise errors.UnsupportedObject(f'{primitive[NAMESPACE]}.{name}')
        found: Any = cls.obj_class_from_name(name, version)
        made: Self = found._obj_from_primitive(context, version, primitive)
        return made

    @classmethod
    def _obj_from_primitive(
        cls, context: Any, objver: str, primitive: dict[str, Any]
    ) -> Self:
        self = cls()
        self._context = context
        # The third part marks a stable branch and means nothing to the reader.
        self.VERSION = '.'.join(objver.split('.')[:2])
        data = primitive[DATA]
        for name, field in cls.fields.items():
            if name in data:
                self._read(name, field, data[name])
        changes = primitive.get(CHANGES) or ()
        self._changed_fields = {name for name in changes if name in cls.fields}
        return self

    def _read(self, name: str, field: ovo_fields.Field[Any], value: Any) -> None:
        try:
            value = field.from_primitive(self, name, value)
            self.__dict__[f'_obj_{name}'] = field.coerce(self, name, value)
        except _MISTYPED as error:
            raise errors.InvalidRequest(f'{self.obj_name()}.{name}: {error}') from error

    def __contains__(self, name: object) -> bool:
        """Return whether a field is set."""
        known = isinstance(name, str) and name in self.fields
        return known and f'_obj_{name}' in self.__dict__

    def obj_load_attr(self, attrname: str) -> None:
        """Give an unset field what it reads as; that is not a change of it.

        Raises NotLoaded where there is nothing to give.
        """
        self.__dict__[f'_obj_{attrname}'] = self._unset(attrname)

    def _unset(self, name: str) -> Any:
        if name in self.UNSET_DEFAULTS:
            made = self.UNSET_DEFAULTS[name]()
            if isinstance(made, NovaObject):
                made.obj_reset_changes()
            return made
        field = self.fields[name]
        if field.default is ovo_fields.UnspecifiedDefault:
            raise NotLoaded(name)
        return field.coerce(self, name, copy.deepcopy(field.default))

    def if_set(self, name: str, default: Any = None) -> Any:
        """Return a field, or the default where it is unset."""
        return self.__dict__.get(f'_obj_{name}', default)

    def set_fields(self) -> dict[str, Any]:
        """Return the fields that are set, by name."""
        own = self.__dict__
        return {n: own[kept] for n, kept in self._attributes.items() if kept in own}

    @classmethod
    def made_of(cls, **values: Any) -> Self:
        """Return an object with these values, none a change; raises as assign()."""
        made = cls()
        made.assign(**values)
        made.obj_reset_changes()
        return made

    def assign(self, **values: Any) -> None:
        """Set fields; raises errors.InvalidRequest for a value that does not fit."""
        for name, value in values.items():
            try:
                setattr(self, name, value)
            except _MISTYPED as error:
                raise errors.InvalidRequest(
                    f'{self.obj_name()}.{name}: {error}'
                ) from error

    def replaced(self, **values: Any) -> Self:
        """Return a shallow copy with other values, not recorded as changes."""
        new = copy.copy(self)
        new._changed_fields = set(self._changed_fields)
        for name, value in values.items():
            new.__dict__[f'_obj_{name}'] = self.fields[name].coerce(new, name, value)
        return new


for _name in _OF_DATABASE.split():
    setattr(NovaObject, _name, _NeedsDatabase(_name))


class FilledObject(NovaObject):
    """An object whose fields take their defaults as it is made."""

    def __init__(self, context: Any = None, **kwargs: Any) -> None:
        super().__init__(context, **kwargs)
        self.obj_set_defaults()


class NovaTimestampObject(NovaObject):
    """An object made from a row that knows its age. Times are UTC, with zone."""

    created_at: datetime.datetime | None = fields.timestamp(nullable=True)
    updated_at: datetime.datetime | None = fields.timestamp(nullable=True)


class NovaPersistentObject(NovaTimestampObject):
    """An object made from a row that is marked, not removed, when deleted."""

    deleted_at: datetime.datetime | None = fields.timestamp(nullable=True)
    deleted: bool = fields.boolean(default=False)


class NovaObjectList(ovo.ObjectListBase[Item], NovaObject):
    """A list of objects, itself an object with the field ``objects``."""


@functools.lru_cache(maxsize=1024)
def version_numbers(version: str) -> tuple[int, int]:
    """Return the major and the minor number of ``X.Y`` or ``X.Y.Z``."""
    try:
        major, minor, *rest = (int(part) for part in version.split('.'))
    except (ValueError, AttributeError):
        raise errors.InvalidRequest(f'{version!r} is no object version') from None
    if len(rest) > 1:
        raise errors.InvalidRequest(f'{version!r} is no object version')
    return major, minor


def _check_envelope(wanted: str, primitive: Any) -> None:
    if not isinstance(primitive, dict):
        kind = type(primitive).__name__
        raise errors.InvalidRequest(f'{wanted}: an object is required, not a {kind}')
    for key in (NAME, NAMESPACE, VERSION, DATA):
        if not isinstance(primitive.get(key), dict if key == DATA else str):
            name = primitive.get(NAME, wanted)
            raise errors.InvalidRequest(f'{name}: {key} is missing or mistyped')


def parse(
    primitive: dict[str, Any], context: Any = None, accept_newer: bool = False
) -> NovaObject:
    """Read an object of any known class.

    Raises errors.UnsupportedObject for an unknown name or namespace, and
    errors.InvalidRequest for a mistyped or nonsensical field. Raises oslo's
    IncompatibleObjectVersion if the object, or one inside it, is newer than we know.
    With ``accept_newer``, newer minor versions are read without their new fields.
    """
    try:
        with bounded_depth():
            if accept_newer:
                primitive = _with_known_versions(primitive)
            return NovaObject.obj_from_primitive(primitive, context)
    except NestedTooDeep as problem:
        raise errors.InvalidRequest(str(problem)) from problem


def _with_known_versions(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_known_versions(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: _with_known_versions(item) for key, item in value.items()}
    known = NovaObjectRegistry.obj_classes().get(value.get(NAME, ''))
    if known and isinstance(value.get(VERSION), str):
        received, own = value[VERSION], known[0].VERSION
        if version_numbers(received)[0] == version_numbers(own)[0]:
            value[VERSION] = min(received, own, key=version_numbers)
    return value


def versions_of(name: str) -> dict[str, str]:
    """Return the version of a class and of each that it can contain, if known."""
    found: dict[str, str] = {}
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        known = NovaObjectRegistry.obj_classes().get(name)
        if not known:
            continue
        found[name] = known[0].VERSION
        for field in known[0].fields.values():
            if isinstance(
                field, ovo_fields.ObjectField | ovo_fields.ListOfObjectsField
            ):
                waiting.append(field.objname)
    return found

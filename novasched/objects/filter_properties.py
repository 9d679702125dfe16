# SPDX-License-Identifier: Apache-2.0
"""The dicts that requests were before RequestSpec, made of one.

Replies to old callers, notifications and plugins of that time use them.
``request_spec`` has the image, the flavor and properties of the instance;
``filter_properties`` has everything else. A plugin finds the former in the latter, with
a few keys more, and may write there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, NamedTuple, Protocol

from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from novasched.objects.instance_group import InstanceGroup

AS_THEY_ARE = (
    'numa_topology',
    'pci_requests',
    'project_id',
    'user_id',
    'availability_zone',
)
HOST_LISTS = ('ignore_hosts', 'force_hosts', 'force_nodes')
_FROM_FLAVOR = ('root_gb', 'ephemeral_gb', 'memory_mb', 'vcpus')
_OF_GROUP = (
    'group_updated',
    'group_hosts',
    'group_policies',
    'group_members',
    'group_uuid',
)
_ABSENT: Any = object()


class Described(Protocol):
    """The parts of a RequestSpec that its dicts are made of."""

    @property
    def flavor(self) -> Flavor: ...
    @property
    def instance_uuid(self) -> str: ...
    @property
    def image_properties(self) -> ImageMetaProps: ...
    @property
    def obj_context(self) -> Any: ...
    def __contains__(self, name: object) -> bool: ...
    def if_set(self, name: str, default: Any = None) -> Any: ...
    def hint(self, name: str) -> Any: ...


def request_spec_dict(spec: Described) -> dict[str, Any]:
    """Return the ``request_spec`` of a request; objects in it stay objects."""
    image = spec.if_set('image')
    return {
        'num_instances': spec.if_set('num_instances', 1),
        'image': {} if image is None else _image_dict(image),
        'instance_properties': _instance_properties(spec),
        'instance_type': spec.if_set('flavor', {}),
    }


def _image_dict(image: ImageMeta) -> dict[str, Any]:
    values = image.set_fields()
    if 'properties' in values:
        values['properties'] = values['properties'].set_fields()
    return values


def _instance_properties(spec: Described) -> dict[str, Any]:
    values = {name: getattr(spec, name) for name in AS_THEY_ARE if name in spec}
    if 'instance_uuid' in spec:
        values['uuid'] = spec.instance_uuid
    if 'flavor' in spec:
        values.update((name, getattr(spec.flavor, name)) for name in _FROM_FLAVOR)
    return values


def filter_properties_dict(spec: Described) -> dict[str, Any]:
    """Return the ``filter_properties`` of a request, without what is empty.

    ``group_hosts``, ``group_policies`` and ``group_members`` are sets,
    ``requested_destination`` is the object, hints of one text are that text.
    """
    sent = *HOST_LISTS, 'requested_destination', 'retry', 'limits', *_OF_GROUP
    made = {name: KEYS[name].make(spec) for name in sent}
    values = {name: value for name, value in made.items() if value is not _ABSENT}
    hints = _hints(spec)
    return {**values, 'scheduler_hints': hints} if hints else values


def _hints(spec: Described) -> dict[str, Any] | None:
    hints = spec.if_set('scheduler_hints')
    return None if hints is None else {name: _own(spec.hint(name)) for name in hints}


def _own(value: Any) -> Any:
    """Return a list of one's own for a list of the request."""
    return list(value) if isinstance(value, list) else value


def _retry(retry: Any) -> dict[str, Any]:
    if 'num_attempts' not in retry or 'hosts' not in retry:
        return {}
    hosts = [[node.host, node.hypervisor_hostname] for node in retry.hosts]
    return {'num_attempts': retry.num_attempts, 'hosts': hosts}


def _os_type(spec: Described) -> str | None:
    found: str | None = spec.image_properties.get('os_type')
    return found


def _request_spec(spec: Described) -> dict[str, Any]:
    """Return the ``request_spec`` with what else an old plugin looks for in it."""
    values = request_spec_dict(spec)
    image = values['image']
    values['instance_properties'] = {
        **dict.fromkeys(AS_THEY_ARE),
        'image_ref': image.get('id'),
        'os_type': _os_type(spec),
        **values['instance_properties'],
    }
    uuid = values['instance_properties'].get('uuid')
    values['instance_uuids'] = [] if uuid is None else [uuid]
    return values


class Key(NamedTuple):
    """One key. ``sources`` are the attributes of a request that it is made of."""

    sources: tuple[str, ...]
    make: Callable[[Described], Any]


def _key(make: Callable[[Described], Any], *fields: str) -> Key:
    return Key(tuple(f'_obj_{name}' for name in fields), make)


def _if_given(name: str) -> Key:
    """Return a key that is there when the field of that name is not empty."""

    def make(spec: Described) -> Any:
        return _own(spec.if_set(name)) or _ABSENT

    return _key(make, name)


def _of(name: str, make: Callable[[Any], Any]) -> Key:
    """Return a key that is there when the object in the field of that name is."""

    def of_request(spec: Described) -> Any:
        found = spec.if_set(name)
        return _ABSENT if found is None else make(found)

    return _key(of_request, name)


def _of_group(make: Callable[[InstanceGroup], Any]) -> Key:
    return _of('instance_group', make)


KEYS: dict[str, Key] = {
    'context': Key(
        ('_context',), lambda s: _ABSENT if s.obj_context is None else s.obj_context
    ),
    'request_spec': _key(
        _request_spec, 'num_instances', 'image', 'flavor', 'instance_uuid', *AS_THEY_ARE
    ),
    'instance_type': _if_given('flavor'),
    'scheduler_hints': _key(_hints, 'scheduler_hints'),
    'config_options': _key(lambda spec: {}),
    'project_id': _key(lambda spec: spec.if_set('project_id'), 'project_id'),
    'os_type': _key(_os_type, 'image'),
    **{name: _if_given(name) for name in HOST_LISTS},
    'retry': _of('retry', _retry),
    'limits': _of('limits', lambda limits: limits.to_dict()),
    'group_updated': _of_group(lambda group: True),
    'group_hosts': _of_group(lambda group: set(group.if_set('hosts') or ())),
    'group_policies': _of_group(lambda group: {group.policy} - {None}),
    'group_members': _of_group(lambda group: set(group.if_set('members') or ())),
    'group_uuid': _of_group(lambda group: group.if_set('uuid', _ABSENT)),
    'pci_requests': _if_given('pci_requests'),
    'requested_destination': _if_given('requested_destination'),
}
"""What an old plugin finds, by its name."""


class Notes(NamedTuple):
    """What belongs to a request, not to one of its copies.

    ``written`` by plugins; ``made`` of the sources beside it.
    """

    written: dict[str, Any]
    made: dict[str, tuple[tuple[Any, ...], Any]]


class FilterProperties(MutableMapping[str, Any]):
    """The dict of a request, with what plugins write to it.

    Values that plugins assign stay apart from the request and last as long as the
    notes. A value made of the request is made once, and again when its fields change.
    """

    __slots__ = ('_notes', '_spec')

    def __init__(self, spec: Described, notes: Notes) -> None:
        self._spec = spec
        self._notes = notes

    def __getitem__(self, key: str) -> Any:
        written = self._notes.written
        value = written[key] if key in written else self._made(key)
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def _made(self, name: str) -> Any:
        key = KEYS.get(name)
        if key is None:
            return _ABSENT
        values = vars(self._spec)
        sources = tuple([values.get(source, _ABSENT) for source in key.sources])
        kept = self._notes.made.get(name)
        if kept is None or kept[0] != sources:
            kept = self._notes.made[name] = sources, key.make(self._spec)
        return kept[1]

    def __setitem__(self, key: str, value: Any) -> None:
        self._notes.written[key] = value

    def __delitem__(self, key: str) -> None:
        self[key]  # raises KeyError
        self._notes.written[key] = _ABSENT

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys([*KEYS, *self._notes.written])
        return iter([name for name in names if name in self])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _of_dict(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of the request that is this one of its dict."""

    def call(self: AnswersAsDict, *args: Any, **kwargs: Any) -> Any:
        return method(self.filter_properties(), *args, **kwargs)

    return call


class AnswersAsDict:
    """A request that can be read and written like the dict of its time.

    Attributes, the wire form and what changed know nothing of it. Shallow copies
    made after the first use share what was written; deep copies share nothing.
    """

    def filter_properties(self) -> FilterProperties:
        """Return the request as the dict that it once was."""
        notes = vars(self).get('_notes')
        if notes is None:
            notes = vars(self).setdefault('_notes', Notes({}, {}))
        return FilterProperties(self, notes)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, key: str) -> Any:
        return self.filter_properties()[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self.filter_properties().get(key, default)

    __setitem__ = _of_dict(FilterProperties.__setitem__)
    __delitem__ = _of_dict(FilterProperties.__delitem__)
    __iter__ = _of_dict(FilterProperties.__iter__)
    __len__ = _of_dict(FilterProperties.__len__)
    keys = _of_dict(FilterProperties.keys)
    values = _of_dict(FilterProperties.values)
    items = _of_dict(FilterProperties.items)
    setdefault = _of_dict(FilterProperties.setdefault)
    update = _of_dict(FilterProperties.update)
    pop = _of_dict(FilterProperties.pop)

    def copy(self) -> dict[str, Any]:
        return dict(self.filter_properties())

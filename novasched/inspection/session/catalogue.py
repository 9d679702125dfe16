# SPDX-License-Identifier: Apache-2.0
"""Flavors and images that are known by name, or said in full."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from novasched import errors, parsing
from novasched.objects.flavor import Flavor

Image = Mapping[str, Any]

FLAVORS: Mapping[str, Mapping[str, Any]] = {
    'm1.tiny': {'id': 1, 'vcpus': 1, 'ram': 512, 'disk': 1},
    'm1.small': {'id': 2, 'vcpus': 1, 'ram': 2048, 'disk': 20},
    'm1.medium': {'id': 3, 'vcpus': 2, 'ram': 4096, 'disk': 40},
    'm1.large': {'id': 4, 'vcpus': 4, 'ram': 8192, 'disk': 80},
}
"""Built in: CPUs, MiB, GiB."""

IMAGES: Mapping[str, Image] = {'cirros': {'min_ram': 0, 'min_disk': 0}}

_NUMBERS = {
    'vcpus': 'vcpus',
    'ram': 'memory_mb',
    'disk': 'root_gb',
    'ephemeral': 'ephemeral_gb',
    'swap': 'swap',
}
MOST_VCPUS, MOST_SIZE = 2**16, 2**31 - 1
"""The largest numbers of a flavor; the database of nova keeps 32 bits."""
_NUMBER = re.compile('[0-9]{1,10}')
_NEEDED = ('vcpus', 'ram', 'disk')


def from_file(text: str, path: str | None, kind: str) -> str:
    """Return a text, or as JSON the entry of a file that it names, for readers that do
    not see the file. ``kind``: flavors or images. Raises errors.OptionError."""
    listed = _listed(path, kind) if path else {}
    return _as_json(text, listed[text]) if text in listed else text


def flavor_of(
    text: str,
    in_database: Callable[[str], Flavor | None] = lambda name: None,
    built_in: Mapping[str, Mapping[str, Any]] = FLAVORS,
) -> Flavor:
    """Return the flavor that a text names, or says: ``vcpus=2,ram=2048,disk=20``.

    A name may have a ``=`` in it. The API database comes before the flavors that are
    built in. JSON is as from_file() returns it. Raises errors.OptionError.
    """
    entry = _entry(text)
    if entry is not None:
        return _flavor(entry.pop('name'), entry)
    found = in_database(text)
    if found is not None:
        return found
    if text in built_in:
        return _flavor(text, built_in[text])
    if '=' in text:
        return _flavor('inline', _assignments(text))
    raise errors.OptionError(
        '--flavor',
        f'there is no flavor {text}',
        f'Name one of {", ".join([*built_in, "the API database"])}, or write '
        'vcpus=2,ram=2048,disk=20',
    )


def image_of(text: str) -> Image:
    """Return the image of a name, or of its properties: ``hw_cpu_policy=dedicated``.

    Raises errors.OptionError.
    """
    entry = _entry(text)
    if entry is None and '=' in text:
        return {'name': '', 'properties': _assignments(text, '--image')}
    if entry is None and text not in IMAGES:
        raise errors.OptionError(
            '--image',
            f'there is no image {text}',
            f'Name one of {", ".join(IMAGES)}, or give --image-file',
        )
    said = IMAGES[text] if entry is None else entry
    name = said.get('name', text)
    known = {'id': name_uuid('image', name), 'status': 'active', 'properties': {}}
    return {**known, **said, 'name': name}


def image_for(flavor: Flavor, text: str) -> Image:
    """Return an image as image_of() does, {} for none; raises errors.OptionError also
    for one that cannot start in the flavor."""
    if not text:
        return {}
    image = image_of(text)
    for least, has, unit in (
        ('min_ram', flavor.memory_mb, 'MiB of memory'),
        ('min_disk', flavor.root_gb, 'GiB of disk'),
    ):
        needed = int(image.get(least) or 0)
        if needed > has:
            raise errors.OptionError(
                '--flavor',
                f'image {image["name"]} needs {needed} {unit}, {flavor.name} has {has}',
                'Name a larger flavor',
            )
    return image


def pairs(texts: Iterable[str], option: str) -> dict[str, list[str]]:
    """Return the values of ``key=value`` texts by key, in order.

    Raises errors.OptionError for a text that is none.
    """
    found: dict[str, list[str]] = {}
    for text in texts:
        key, equals, value = text.partition('=')
        if not equals or not key:
            raise errors.OptionError(option, f'{text} is no pair', 'Write key=value')
        found.setdefault(key, []).append(value)
    return found


def _assignments(text: str, option: str = '--flavor') -> dict[str, str]:
    """Read ``a=1,b=2,3``: a part without ``=`` goes on with the one before."""
    parts: list[str] = []
    for part in text.split(','):
        if '=' in part or not parts:
            parts.append(part)
        else:
            parts[-1] += f',{part}'
    return {key: values[-1] for key, values in pairs(parts, option).items()}


def _flavor(name: str, said: Mapping[str, Any]) -> Flavor:
    """Make a flavor; what it does not know are extra specs."""
    missing = [key for key in _NEEDED if key not in said]
    if missing:
        raise errors.OptionError(
            '--flavor',
            f'{name} does not say {", ".join(missing)}',
            'Write vcpus=2,ram=2048,disk=20: CPUs, MiB and GiB',
        )
    extra = {key: value for key, value in said.items() if key not in _NUMBERS}
    id_ = extra.pop('id', name_uuid('flavor', name))
    extra = {**extra.pop('extra_specs', {}), **extra}
    made = Flavor(
        id=id_ if isinstance(id_, int) and 0 <= id_ <= MOST_SIZE else 0,
        flavorid=str(id_),
        name=str(extra.pop('name', name)),
        rxtx_factor=1.0,
        vcpu_weight=None,
        disabled=False,
        is_public=True,
        description=None,
        extra_specs={
            str(key): str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in extra.items()
        },
        **{field: _number(name, key, said) for key, field in _NUMBERS.items()},
    )
    made.obj_reset_changes()
    return made


def _number(name: str, key: str, said: Mapping[str, Any]) -> int:
    text = str(said.get(key, 0))
    most = MOST_VCPUS if key == 'vcpus' else MOST_SIZE
    least = 1 if key in ('vcpus', 'ram') else 0
    if not (_NUMBER.fullmatch(text) and least <= int(text) <= most):
        raise errors.OptionError(
            '--flavor',
            f'{key} of {name} is {text or "nothing"}',
            f'Write a whole number from {least} to {most}',
        )
    return int(text)


def _as_json(name: str, entry: Mapping[str, Any]) -> str:
    return json.dumps({'name': name, **entry}, default=str)


def _entry(text: str) -> dict[str, Any] | None:
    """Return a flavor or an image that JSON describes. Raises errors.OptionError.

    None if the text is no object of JSON.
    """
    try:
        said = parsing.parse_json(text)
        json.dumps(said, ensure_ascii=False).encode()
    except UnicodeEncodeError as problem:
        raise errors.OptionError(
            'flavor or image', 'half of a character is in it', 'Correct the entry'
        ) from problem
    except ValueError:
        return None
    if not isinstance(said, dict):
        return None
    option = '--flavor' if 'vcpus' in said else '--image'
    numbers = (said.get(name, 0) for name in ('min_ram', 'min_disk'))
    tables = (said.get(name, {}) for name in ('properties', 'extra_specs'))
    if not (
        isinstance(said.get('name'), str)
        and all(_NUMBER.fullmatch(str(number)) for number in numbers)
        and all(isinstance(table, dict) for table in tables)
    ):
        text = 'it has no name, or not numbers and tables as the file needs them'
        raise errors.OptionError(option, text, 'Correct the entry')
    return said


def _listed(path: str, kind: str) -> dict[str, dict[str, Any]]:
    """Read the tables ``[[kind]]`` of a file, by their names."""
    option = f'--{kind[:-1]}-file'
    try:
        content = parsing.parse_toml(Path(path).read_text())
        entries = [dict(entry) for entry in content.get(kind, ())]
        return {str(entry.pop('name')): entry for entry in entries}
    except KeyError as problem:
        raise errors.OptionError(
            option, f'{path}: an entry has no name', f'Write name = "..." in [[{kind}]]'
        ) from problem
    except (OSError, ValueError, TypeError) as problem:
        raise errors.OptionError(
            option, f'{path}: {problem}', f'Write it in TOML, as tables [[{kind}]]'
        ) from problem


def name_uuid(kind: str, name: str) -> str:
    """Return the uuid of what is known by its name, the same in every run."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f'{kind}.{name}.compute.novasched'))

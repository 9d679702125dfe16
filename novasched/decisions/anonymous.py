# SPDX-License-Identifier: Apache-2.0
"""A kept request without names: each is a hash of it, the same wherever it stands.

Names that differ in case alone still do. The salt is random, and is not kept.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from novasched.decisions.history import Document
from novasched.objects.base import DATA, NAME

NAMING = frozenset(
    [
        *('host', 'hosts', 'node', 'nodename', 'hypervisor_hostname', 'server', 'ours'),
        *('refused', 'id', 'uuid', 'request_id', 'instance_uuids', 'members'),
        *('force_hosts', 'force_nodes', 'ignore_hosts'),
        *('isolated_hosts', 'isolated_images'),
        *('project_id', 'tenant_id', 'user_id', 'owner'),
        *('availability_zone', 'default_availability_zone'),
    ]
)
"""Keys whose texts are names."""
BY_UUID = frozenset({'instances', 'instance_images'})
TENANT = 'filter_tenant_id'
NAMED = frozenset({'ImageMeta', 'InstanceGroup', 'SecurityGroup', 'CellMapping'})
"""Objects whose field ``name`` is one."""
FREE = frozenset({'disabled_reason', 'description'})
"""Free text, which no decision reads."""
MOST_DIGITS = 8
"""A shorter number is no name: it may be any amount."""
KEPT = frozenset({'nova', 'internal', ''})
"""Names that are the same in every cloud."""
NEAR_HINT = 'build_near_host_ip'
_UUID = re.compile(r'[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}', re.IGNORECASE)
_ENDS = r'[\w.-]'


def anonymous(kept: Document, salt: bytes | None = None) -> Document:
    """Return the document with its names hashed."""
    salt = salt or secrets.token_bytes(16)
    found = {
        name for name in _names(kept) if len(name) > MOST_DIGITS or not name.isdecimal()
    } - KEPT
    longest = '|'.join(map(re.escape, sorted(found, key=len, reverse=True)))
    texts = f'(?<!{_ENDS})(?:{longest})(?!{_ENDS})|' if found else ''
    pattern = re.compile(f'{texts}{_UUID.pattern}', re.IGNORECASE)
    near = any(NEAR_HINT in text for text in _keys(kept['requests']))

    def hashed(match: re.Match[str]) -> str:
        return _hashed(salt, match[0])

    def copied(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(hashed, value)
        if isinstance(value, list):
            return [copied(each) for each in value]
        if isinstance(value, Mapping):
            return {
                name
                if name.startswith('nova_object.')
                else pattern.sub(hashed, name): (
                    each
                    if name.startswith('nova_object.') and name != DATA
                    else copied(each)
                )
                for name, each in value.items()
                if name not in FREE and (near or name != 'host_ip')
            }
        return value

    return {
        name: value if name in ('history', 'novasched') else copied(value)
        for name, value in kept.items()
    }


def _hashed(salt: bytes, name: str) -> str:
    """Return the hash of a name: a uuid for a uuid, else lower case for lower case."""
    if _UUID.fullmatch(name):
        return str(uuid.UUID(bytes=hmac.digest(salt, name.encode(), 'md5')))
    digest = hmac.digest(salt, name.lower().encode(), hashlib.sha256)
    letters = ''.join(chr(ord('a') + byte % 26) for byte in digest[:14])
    if name == name.lower():
        return letters
    raised = hmac.digest(salt, name.encode(), hashlib.sha256)
    marks = zip(letters, raised, strict=False)
    return letters[0].upper() + ''.join(
        each.upper() if byte % 2 else each for each, byte in list(marks)[1:]
    )


def _names(value: Any, is_name: bool = False) -> Iterator[str]:
    """Yield the names in a document, those in lists of text each for itself."""
    if isinstance(value, str) and is_name:
        yield value
        yield from map(str.strip, value.split(','))
    elif isinstance(value, list):
        for each in value:
            yield from _names(each, is_name)
    elif isinstance(value, Mapping):
        named = value.get(NAME) in NAMED or {'metadata', 'hosts'} <= value.keys()
        for name, each in value.items():
            if name == DATA and named:
                yield from _names(each.get('name'), True)
            if name in BY_UUID:
                yield from each
            is_key = name in NAMING or name.startswith(TENANT)
            yield from _names(each, is_key or (name == 'name' and named))


def _keys(value: Any) -> Iterator[str]:
    for each in value.values() if isinstance(value, Mapping) else value:
        if isinstance(each, Mapping | list):
            yield from _keys(each)
    if isinstance(value, Mapping):
        yield from value

# SPDX-License-Identifier: Apache-2.0
"""A kept request without names: a name is a hash of it, the same wherever it stands.

Names that differ in case alone are one. The salt is random, and is not kept.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from novasched.decisions.comparison import Cause
from novasched.decisions.history import Document
from novasched.objects.base import DATA, NAME

NAMING = frozenset(
    [
        *('host', 'hosts', 'node', 'nodename', 'hypervisor_hostname', 'server', 'ours'),
        *('refused', 'id', 'uuid', 'request_id', 'instance_uuids', 'members'),
        *('force_hosts', 'force_nodes', 'ignore_hosts'),
        *('isolated_hosts', 'isolated_images'),
        *('profile', 'project_id', 'tenant_id', 'user_id', 'owner'),
        *('availability_zone', 'default_availability_zone'),
    ]
)
"""Keys whose texts are names."""
BY_UUID = frozenset({'instances', 'instance_images'})
TENANT = 'filter_tenant_id'
NAMED = frozenset({'ImageMeta', 'InstanceGroup', 'SecurityGroup', 'CellMapping'})
"""Objects whose field ``name`` is one."""
OPAQUE = frozenset({'packed'})
"""Numbers in a form that looks like text."""
FREE = frozenset({'disabled_reason', 'description', 'fault'})
"""Free text, which no decision reads."""
NAMING_CAUSES = frozenset({Cause.FILTER, Cause.OTHER_REQUEST})
"""Causes whose detail is a name; others have the text of a fault."""
MOST_DIGITS = 8
"""A shorter number is no name: it may be any amount."""
KEPT = frozenset({'nova', 'internal', ''})
"""Names that are the same in every cloud."""
NEAR_HINT = 'build_near_host_ip'
ENVELOPE = 'nova_object.'
_UUID = re.compile(r'[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}', re.IGNORECASE)
_ENDS = r'[\w.-]'
_WORD = r'[\w.-]+'


class Anonymiser:
    """Hashes names wherever they stand, in any number of documents.

    With ``keeps_addresses``, the addresses of hosts are left in.
    """

    def __init__(self, names: Iterable[str], keeps_addresses: bool) -> None:
        self._salt = secrets.token_bytes(16)
        self._left_out = FREE if keeps_addresses else {*FREE, 'host_ip'}
        self._names = {name.lower() for name in names if is_name(name)}
        odd = [name for name in self._names if re.fullmatch(_WORD, name) is None]
        longest = '|'.join(map(re.escape, sorted(odd, key=len, reverse=True)))
        phrases = f'(?<!{_ENDS})(?:{longest})(?!{_ENDS})|' if odd else ''
        self._words = re.compile(phrases + _WORD, re.IGNORECASE)

    def _replaced(self, match: re.Match[str]) -> str:
        if match[0].lower() in self._names:
            return self.hashed(match[0])
        return self._without_uuids(match[0])

    def _without_uuids(self, text: str) -> str:
        return _UUID.sub(lambda found: self.hashed(found[0]), text)

    def _key(self, key: str, is_name: bool) -> str:
        if is_name:
            return self._words.sub(self._replaced, key)
        return self._without_uuids(key)

    def hashed(self, name: str) -> str:
        """Return the hash of a name, which for a uuid is one, too."""
        digest = hmac.digest(self._salt, name.lower().encode(), 'sha256')[:16]
        if _UUID.fullmatch(name):
            return str(uuid.UUID(bytes=digest))
        return ''.join(chr(ord('a') + byte % 26) for byte in digest)

    def copied(self, value: Any, is_by_name: bool = False) -> Any:
        """Return a copy without names. Keys of a dictionary are names if it
        ``is_by_name``; of others they are fields, whatever hosts are called."""
        if isinstance(value, str):
            return self._words.sub(self._replaced, value)
        if isinstance(value, list):
            return [self.copied(each, is_by_name) for each in value]
        if isinstance(value, dict):
            return {
                self._key(name, is_by_name): each
                if name in OPAQUE or (name.startswith(ENVELOPE) and name != DATA)
                else self.copied(each, name in BY_UUID)
                for name, each in value.items()
                if name not in self._left_out and not _is_fault(name, value)
            }
        return value


def anonymous(kept: Document) -> Document:
    """Return the document with its names hashed."""
    anonymiser = Anonymiser(names_in(kept), NEAR_HINT in json.dumps(kept))
    return {**anonymiser.copied(kept), 'novasched': kept.get('novasched')}


def _is_fault(name: str, within: Document) -> bool:
    """Return whether a field of a comparison may have the text of a fault."""
    is_detail = name == 'detail' and 'cause' in within
    return is_detail and within['cause'] not in NAMING_CAUSES


def is_name(text: str) -> bool:
    """Return whether a text is to be hashed for being a name; uuids are in any case."""
    is_amount = text.isdecimal() and len(text) <= MOST_DIGITS
    return text not in KEPT and not is_amount and not _UUID.fullmatch(text)


def names_in(value: Any, is_name: bool = False) -> Iterator[str]:
    """Yield the names in a document, those in lists of text each for itself."""
    if isinstance(value, str) and is_name:
        yield from (value, *map(str.strip, value.split(',')))
    elif isinstance(value, list):
        for each in value:
            yield from names_in(each, is_name)
    elif isinstance(value, dict):
        if value.get(NAME) in NAMED:
            yield from names_in(value[DATA].get('name'), True)
        is_aggregate = {'metadata', 'hosts'} <= value.keys()
        for key, each in value.items():
            if key in BY_UUID:
                for of_host in each if isinstance(each, list) else [each]:
                    yield from of_host
            is_key = key in NAMING or key.startswith(TENANT)
            yield from names_in(each, is_key or (key == 'name' and is_aggregate))

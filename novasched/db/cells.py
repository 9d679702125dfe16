# SPDX-License-Identifier: Apache-2.0
"""Cell mappings and host mappings of the API database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib import parse

import sqlalchemy as sa
from oslo_log import log as logging

from novasched import printable
from novasched.db import tables
from novasched.ports import Cell

LOG = logging.getLogger(__name__)

_c, _h = tables.cell_mappings.c, tables.host_mappings.c
_MAPPED = tables.host_mappings.join(tables.cell_mappings, _h.cell_id == _c.id)


class UrlDefaults(NamedTuple):
    """The configured URLs that the templates of cell mappings are filled from."""

    database_connection: str | None = None
    transport_url: str | None = None


def read(connection: sa.Connection, defaults: UrlDefaults) -> list[Cell]:
    """Return all cells by id, with the templates in their URLs filled in."""
    columns = (_c.uuid, _c.name, _c.transport_url, _c.database_connection, _c.disabled)
    rows = connection.execute(sa.select(*columns).order_by(_c.id))
    return [
        Cell(
            uuid,
            name,
            fill(transport, defaults.transport_url),
            fill(database, defaults.database_connection),
            bool(disabled),
        )
        for uuid, name, transport, database, disabled in rows
    ]


def host_cell(connection: sa.Connection, host: str) -> str | None:
    """Return the uuid of the cell that a compute host is mapped to."""
    query = sa.select(_c.uuid).select_from(_MAPPED).where(_h.host == host)
    return connection.execute(query).scalars().first()


def mapped_hosts(connection: sa.Connection) -> set[str]:
    """Return the names of all hosts that are mapped to some cell."""
    return set(connection.execute(sa.select(_h.host)).scalars())


def hosts_by_cell(connection: sa.Connection) -> dict[str, list[str]]:
    """Return the hosts that are mapped to each cell, by the uuid of the cell."""
    query = sa.select(_c.uuid, _h.host).select_from(_MAPPED).order_by(_h.id)
    found: dict[str, list[str]] = {}
    for uuid, host in connection.execute(query):
        found.setdefault(uuid, []).append(host)
    return found


def fill(template: str | None, configured: str | None) -> str | None:
    """Fill the placeholders of a template from the parts of a configured URL.

    A template that cannot be filled is logged and returned as it is.
    """
    if template is None or not (configured or '{' in template):
        return template
    reason = 'the URL that it refers to is not configured.'
    if configured:
        try:
            return template.format(**url_parts(configured))
        except (LookupError, ValueError, AttributeError) as problem:
            reason = f'{type(problem).__name__}: {problem}'
    LOG.error(
        'The template %s of a cell mapping cannot be filled: %s',
        printable.mask(template),
        reason,
    )
    return template


def url_parts(url: str) -> Mapping[str, str]:
    """Return the placeholders of a URL and their values, as written in it.

    A location that is a comma-separated list gives each member's parts too,
    numbered from 1. Raises ValueError for text that is no URL.
    """
    whole = parse.urlparse(url)
    parts = {
        'scheme': whole.scheme,
        'path': whole.path.lstrip('/'),
        'query': whole.query,
        'fragment': whole.fragment,
        **_location(whole, ''),
    }
    members = whole.netloc.split(',')
    if len(members) > 1:
        for number, member in enumerate(members, 1):
            parts.update(_location(parse.urlparse(f'//{member}'), str(number)))
    return parts


def _location(url: parse.ParseResult, suffix: str) -> dict[str, str]:
    return {
        f'{part}{suffix}': str(getattr(url, part))
        for part in ('username', 'password', 'hostname', 'port')
    }

# SPDX-License-Identifier: Apache-2.0
"""Cell mappings and host mappings of the API database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib import parse

import sqlalchemy as sa
from oslo_log import log as logging

from novasched.db import tables, transactions
from novasched.ports import Cell

LOG = logging.getLogger(__name__)


class UrlDefaults(NamedTuple):
    """The configured URLs that the templates of cell mappings are filled from."""

    database_connection: str | None = None
    transport_url: str | None = None


def read(connection: sa.Connection, defaults: UrlDefaults) -> list[Cell]:
    """Return all cells by id, with the templates in their URLs filled in."""
    c = tables.cell_mappings.c
    columns = (c.uuid, c.name, c.transport_url, c.database_connection, c.disabled)
    rows = connection.execute(sa.select(*columns).order_by(c.id))
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
    cell, mapping = tables.cell_mappings, tables.host_mappings
    joined = mapping.join(cell, mapping.c.cell_id == cell.c.id)
    query = sa.select(cell.c.uuid).select_from(joined).where(mapping.c.host == host)
    return connection.execute(query).scalars().first()


def mapped_hosts(connection: sa.Connection) -> set[str]:
    """Return the names of all hosts that are mapped to some cell."""
    return set(connection.execute(sa.select(tables.host_mappings.c.host)).scalars())


def hosts_by_cell(connection: sa.Connection) -> dict[str, list[str]]:
    """Return the hosts that are mapped to each cell, by the uuid of the cell."""
    cell, mapping = tables.cell_mappings, tables.host_mappings
    joined = mapping.join(cell, mapping.c.cell_id == cell.c.id)
    query = sa.select(cell.c.uuid, mapping.c.host).select_from(joined)
    found: dict[str, list[str]] = {}
    for uuid, host in connection.execute(query.order_by(mapping.c.id)):
        found.setdefault(uuid, []).append(host)
    return found


def fill(template: str | None, configured: str | None) -> str | None:
    """Fill the placeholders of a template from the parts of a configured URL.

    A template that cannot be filled is logged and returned as it is.
    """
    if template is None:
        return None
    if not configured:
        if '{' in template:
            LOG.error(
                'The template %s of a cell mapping cannot be filled: '
                'the URL that it refers to is not configured.',
                transactions.mask(template),
            )
        return template
    try:
        return template.format(**url_parts(configured))
    except (LookupError, ValueError, AttributeError) as problem:
        LOG.error(
            'The template %s of a cell mapping cannot be filled: %s: %s',
            transactions.mask(template),
            type(problem).__name__,
            problem,
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

# SPDX-License-Identifier: Apache-2.0
"""What answers of the network service look like; ValueError: it is something else."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlsplit

from novasched.resources.requirements import Port


class Page(NamedTuple):
    """Some subnets of a network; ``next_query`` asks for more, None: there are none."""

    segments: frozenset[str]
    next_query: str | None


def port(body: Any) -> Port:
    """Read ``{"port": {...}}``; of its addresses the first counts."""
    found = _part(body, 'port', dict)
    addresses = found.get('fixed_ips') or [{}]
    if not isinstance(addresses, list):
        raise ValueError('fixed_ips is no list')
    return Port(
        vnic_type=_text(found, 'binding:vnic_type'),
        network_id=_text(found, 'network_id'),
        subnet_id=_text(addresses[0], 'subnet_id'),
    )


def segments(body: Any) -> frozenset[str]:
    """Read the segment of ``{"subnet": {...}}``, of which there may be none."""
    return _segments([_part(body, 'subnet', dict)])


def page(body: Any) -> Page:
    """Read the segments of ``{"subnets": [...]}``, and where there are more."""
    found = _segments(_part(body, 'subnets', list))
    return Page(found, _next_query(body.get('subnets_links') or ()))


def _part(body: Any, name: str, kind: type) -> Any:
    found = body.get(name) if isinstance(body, dict) else None
    if not isinstance(found, kind):
        raise ValueError(f'there is no {name}')
    return found


def _segments(subnets: list[Any]) -> frozenset[str]:
    return frozenset(filter(None, (_text(each, 'segment_id') for each in subnets)))


def _text(thing: Any, name: str) -> str | None:
    if not isinstance(thing, dict):
        raise ValueError(f'{name} is asked of no object')
    text = thing.get(name)
    if text is not None and not isinstance(text, str):
        raise ValueError(f'{name} is no text')
    return text


def _next_query(links: Any) -> str | None:
    """Return the query of the next page: a link may name an address of its own,
    and tokens are for no other than the one in the catalog."""
    for link in links if isinstance(links, list) else ():
        if _text(link, 'rel') == 'next':
            query = urlsplit(_text(link, 'href') or '').query
            if not query:
                raise ValueError('the link to the next page has no query')
            return query
    return None

# SPDX-License-Identifier: Apache-2.0
"""Zones, aggregates, cells and hosts that options name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from novasched import errors
from novasched.inspection.session.dry_run import DryRun
from novasched.inspection.session.orders import DrainOrder

ZONE = 'availability_zone'
Place = TypeVar('Place')


def check(run: DryRun, zone: str, host: str, option: str = '--host') -> None:
    """Look whether there is such a zone, and such a host. ``zone`` may be
    zone:host:node. Raises errors.OptionError, and errors.StoreFailed for a host of a
    cell that does not answer."""
    named = zone.partition(':')[0]
    if named:
        _one_of(zones(run), named, '--availability-zone', 'zone')
    if host:
        _check_host(run, host, _hosts(run), option)


def zones(run: DryRun) -> dict[str, set[str]]:
    """Return the hosts of each zone; the default zone has the hosts without one."""
    known = _hosts(run)
    found: dict[str, set[str]] = {}
    for each in run.reader.view.current_aggregates():
        if name := each.metadata.get(ZONE):
            found.setdefault(name, set()).update(each.hosts)
    default = run.reader.driver.context.default_availability_zone
    others = known - set().union(*found.values())
    found[default] = found.get(default, set()) | others
    return found


def within(run: DryRun, order: DrainOrder) -> list[str]:
    """Return the hosts that an order means, sorted; those that it names as they are.

    A host is what its compute service is called. Raises errors.OptionError for what
    there is not, and for a cell that does not answer, and errors.StoreFailed for a host
    of such a cell.
    """
    known = _hosts(run)
    if order.aggregate:
        listed = run.reader.view.current_aggregates()
        by_name = {str(n): a.hosts for a in listed for n in (a.id, a.uuid, a.name) if n}
        return sorted(
            known & _one_of(by_name, order.aggregate, '--aggregate', 'aggregate')
        )
    if order.zone:
        return sorted(known & _one_of(zones(run), order.zone, '--zone', 'zone'))
    if order.cell:
        return sorted(_of_cell(run, order.cell))
    for host in order.hosts:
        _check_host(run, host, known, 'HOST')
    return list(dict.fromkeys(order.hosts))


def _of_cell(run: DryRun, cell: str) -> set[str]:
    view = run.reader.view
    by_name = {n: c for c in view.cells.all() for n in (c.name, c.uuid) if n}
    found = _one_of(by_name, cell, '--cell', 'cell')
    if view.unavailable_cells(found.uuid):
        raise errors.OptionError(
            '--cell', f'{cell} does not answer', 'Try again when its database does'
        )
    return set(view.hosts(None, found.uuid).host.tolist())


def _check_host(run: DryRun, host: str, known: set[str], option: str) -> None:
    """Raise errors.StoreFailed for an unknown host that is mapped to a cell which does
    not answer, and errors.OptionError for any other."""
    if host in known:
        return
    mapped = run.reader.api.host_cell(host)
    for cell in run.reader.view.unavailable_cells(mapped) if mapped else ():
        raise errors.StoreFailed(f'Cell {cell}', f'it does not answer, and has {host}')
    _one_of(dict.fromkeys(known), host, option, 'host')


def _hosts(run: DryRun) -> set[str]:
    return set(run.reader.view.hosts(None).host.tolist())


def _one_of(known: Mapping[str, Place], name: str, option: str, kind: str) -> Place:
    if name in known:
        return known[name]
    meant = errors.closest(name, known)
    raise errors.OptionError(
        option,
        f'there is no {kind} {name}',
        f'Did you mean {meant}?' if meant else f'See {_LISTS[kind]}',
    )


_LISTS = {
    'aggregate': 'openstack aggregate list',
    'cell': 'novasched-manage cell_v2 list_cells',
    'host': 'openstack compute service list',
    'zone': 'openstack availability zone list',
}

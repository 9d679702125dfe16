# SPDX-License-Identifier: Apache-2.0
"""Answers as if the cloud were another: the changes of ``--what-if``.

Rows and providers are changed as they are read; nothing is written.
"""

from __future__ import annotations

import fnmatch
import json
import math
import re
import shlex
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from oslo_config import cfg

from novasched import app, errors
from novasched.inspection.session import edits
from novasched.inspection.session.changed_stores import ChangedCloud, CloudRows
from novasched.objects.base import parse as parse_object
from novasched.objects.numa import NUMATopology
from novasched.parsing import parse_json
from novasched.ports import ComputeNodeRow
from novasched.process import configuration
from novasched.providers.contents import Contents
from novasched.providers.diagnosis import STATUS_DISABLED
from novasched.runtime.deadline import Check, never

OPTION = '--what-if'
FORMS = (
    'disable|enable|remove HOST; add N like HOST; trait HOST +T|-T; '
    'aggregate A +HOST|-HOST; property A key=value; ratio CLASS=NUMBER [A|HOST]; '
    'option GROUP.NAME=VALUE'
)
MOST_ADDED, MOST_ADDED_BY_OTHERS = 10_000, 1_000
"""Hosts that all changes together may add; others than the operator wait for seconds
only."""
RATIO_COLUMNS = {
    'VCPU': 'cpu_allocation_ratio',
    'MEMORY_MB': 'ram_allocation_ratio',
    'DISK_GB': 'disk_allocation_ratio',
}
EMPTY_NODE: dict[str, Any] = {
    'vcpus_used': 0,
    'memory_mb_used': 0,
    'local_gb_used': 0,
    'running_vms': 0,
    'disk_available_least': None,
    'stats': None,
}
"""Columns of a node that has no servers; free amounts are left out."""

Edit = Callable[[Contents], Contents]
"""Changes contents of placement."""
Rule = Callable[['WhatIf', CloudRows], None]


def problem(text: str, words: str) -> errors.OptionError:
    return errors.OptionError(OPTION, f'{text}: {words}', f'Write {FORMS}')


HARMLESS_GROUPS = frozenset({'filter_scheduler', 'metrics', 'scheduler'})
NAMING_CODE = frozenset(
    {'available_filters', 'weight_classes', 'host_manager', 'driver'}
)
"""Options of these groups whose value is imported."""
ATTEMPTS, MOST_ATTEMPTS_BY_OTHERS = 'scheduler.max_attempts', 100
"""Each is one more alternate of each server in an answer."""
_NUMBER = re.compile('[0-9]{1,6}')


@dataclass
class WhatIf:
    """Changes to a cloud. ``wrappers`` are for app.compose_reader(), ``contents`` for
    what is read of placement, and ``options`` are set before anything is made;
    ``check`` ends what takes too long."""

    texts: Sequence[str]
    most_added: int = MOST_ADDED
    most_attempts: float = math.inf
    options: list[tuple[str, str]] = field(default_factory=list)
    added: dict[str, str] = field(default_factory=dict)
    check: Check = never
    _rules: list[Rule] = field(default_factory=list)
    _edits: list[Edit] = field(default_factory=list)

    @classmethod
    def of(cls, texts: Sequence[str], is_trusted: bool = True) -> WhatIf:
        """Read changes; of others than the operator, no option that names code, files
        or servers, and fewer hosts. Raises errors.OptionError."""
        made = cls(texts)
        if not is_trusted:
            made.most_added = MOST_ADDED_BY_OTHERS
            made.most_attempts = MOST_ATTEMPTS_BY_OTHERS
        for text in texts:
            made._read(text)
        for name, value in made.options if not is_trusted else ():
            group, _, option = name.rpartition('.')
            if group not in HARMLESS_GROUPS or option in NAMING_CODE:
                words = 'only the operator may change it, with novasched plan'
                raise problem(f'option {name}={value}', words)
        return made

    def __bool__(self) -> bool:
        return bool(self.texts)

    def _read(self, text: str) -> None:
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise problem(text, str(error)) from error
        match words:
            case ['option', pair]:
                self.options.append(_pair(text, pair))
                return
            case ['disable' | 'enable' as verb, host]:
                rule = partial(_set_disabled, text, host, verb == 'disable')
            case ['remove', host]:
                rule = partial(_remove, text, host)
            case ['add', number, 'like', host] if _NUMBER.fullmatch(number):
                rule = partial(_add, text, host, int(number))
            case ['trait', host, trait] if trait[:1] in '+-' and trait[1:]:
                rule = partial(_set_trait, text, host, trait[1:], trait[0] == '+')
            case ['aggregate', name, *hosts] if hosts:
                rule = partial(_set_members, text, name, hosts)
            case ['property', name, pair]:
                rule = partial(_set_property, text, name, *_pair(text, pair))
            case ['ratio', pair, *where] if len(where) < 2:
                place = where[0] if where else '*'
                rule = partial(_set_ratio, text, *_pair(text, pair), place)
            case _:
                raise problem(text, 'this is no change')
        self._rules.append(rule)

    def configure(self, conf: cfg.ConfigOpts) -> None:
        """Set options. Raises errors.OptionError."""
        for name, value in self.options:
            group, dot, option = name.rpartition('.')
            text, of_group = f'option {name}={value}', group not in ('', 'DEFAULT')
            try:
                conf.set_override(
                    option,
                    configuration.literal(value),  # a reference would show a password
                    group if of_group else None,
                )
                found = conf[group][option] if of_group else conf[option]
            except (cfg.NoSuchOptError, cfg.NoSuchGroupError, ValueError) as error:
                raise problem(text, str(error)) from error
            if not dot:
                raise problem(text, 'it names no group')
            if found is None:  # of a number that is not there
                raise problem(text, 'it has no value')
            if name == ATTEMPTS and found > self.most_attempts:
                raise problem(text, f'more than {self.most_attempts} are not planned')

    def wrappers(self) -> app.Wrappers:
        """Return a function that changes the rows that are read."""
        cloud = ChangedCloud(self._change)
        return app.Wrappers(api=cloud.api, cells=cloud.cells)

    def _change(self, rows: CloudRows) -> None:
        for rule in self._rules:
            self.check()
            rule(self, rows)

    def edit(self, edit: Edit) -> None:
        """Make one more change to placement, after those before it."""
        self._edits.append(edit)

    def contents(self, contents: Contents) -> Contents:
        """Return the contents as they would be."""
        for edit in self._edits:
            self.check()
            contents = edit(contents)
        return contents


def _pair(text: str, pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition('=')
    if not equals or not name:
        raise problem(text, f'{pair} is no pair key=value')
    return name, value


def hosts_named(text: str, pattern: str, rows: CloudRows) -> set[str]:
    """Return the hosts of a name or pattern. Raises errors.OptionError for none."""
    names = {row.host for row in _nodes(rows) if row.host}
    found = {name for name in names if fnmatch.fnmatchcase(name, pattern)}
    if not found:
        raise problem(text, f'there is no host {pattern}')
    return found


def _nodes(rows: CloudRows) -> Iterator[ComputeNodeRow]:
    for nodes in rows.nodes.values():
        yield from nodes


def _uuids(rows: CloudRows, hosts: Iterable[str]) -> list[str]:
    """Return the uuids of the nodes of hosts."""
    names = set(hosts)
    return [row.uuid for row in _nodes(rows) if row.host in names and row.uuid]


def _aggregate(text: str, name: str, rows: CloudRows) -> int:
    """Return the place of an aggregate, by name or uuid."""
    for place, each in enumerate(rows.aggregates):
        if name in (each.name, each.uuid):
            return place
    raise problem(text, f'there is no aggregate {name}')


def _set_disabled(
    text: str, host: str, disabled: bool, what_if: WhatIf, rows: CloudRows
) -> None:
    """``disable HOST`` and ``enable HOST``"""
    hosts = hosts_named(text, host, rows)
    uuids = _uuids(rows, hosts)
    for cell, services in rows.services.items():
        rows.services[cell] = [
            each._replace(disabled=disabled) if each.host in hosts else each
            for each in services
        ]
    what_if.edit(
        lambda contents: edits.with_trait(contents, uuids, STATUS_DISABLED, disabled)
    )


def _remove(text: str, host: str, what_if: WhatIf, rows: CloudRows) -> None:
    """``remove HOST``"""
    hosts = hosts_named(text, host, rows)
    uuids = _uuids(rows, hosts)
    for cell in rows.nodes:
        rows.nodes[cell] = [r for r in rows.nodes[cell] if r.host not in hosts]
        rows.services[cell] = [r for r in rows.services[cell] if r.host not in hosts]
    what_if.edit(lambda contents: edits.without_trees(contents, uuids))


def _add(
    text: str, pattern: str, number: int, what_if: WhatIf, rows: CloudRows
) -> None:
    """``add N like HOST``: hosts with nothing on them."""
    hosts, most = sorted(hosts_named(text, pattern, rows)), what_if.most_added
    if len(what_if.added) + number * len(hosts) > most:
        raise problem(text, f'more than {most} hosts')
    copies: dict[str, str] = {}
    for host in hosts:
        copies |= _copy(rows, host, [f'{host}+{n}' for n in range(1, number + 1)])
    what_if.added |= copies
    what_if.edit(lambda contents: edits.with_copies(contents, copies))


def _copy(rows: CloudRows, host: str, names: Sequence[str]) -> dict[str, str]:
    """Add hosts like another; return the uuids of their nodes, and of its own."""
    copies: dict[str, str] = {}
    rows.like |= dict.fromkeys(names, host)
    for cell, nodes in rows.nodes.items():
        empty = [_without_servers(row) for row in nodes if row.host == host]
        services = [row for row in rows.services[cell] if row.host == host]
        for name in names:
            for row in empty:
                made = str(uuid.uuid4())
                copies[made] = row.uuid or ''
                node = name if len(empty) == 1 else made
                place = -len(nodes) - 1
                nodes.append(
                    row._replace(
                        id=place,
                        mark=place,
                        uuid=made,
                        host=name,
                        hypervisor_hostname=node,
                    )
                )
            for each in services:
                place = -len(rows.services[cell]) - 1
                made = str(uuid.uuid4())
                rows.services[cell].append(
                    each._replace(id=place, uuid=made, host=name)
                )
    rows.aggregates = [
        replace(each, hosts=each.hosts.union(names)) if host in each.hosts else each
        for each in rows.aggregates
    ]
    return copies


def _without_servers(row: ComputeNodeRow) -> ComputeNodeRow:
    return row._replace(
        free_ram_mb=row.memory_mb,
        free_disk_gb=row.local_gb,
        numa_topology=_emptied(row.numa_topology),
        **EMPTY_NODE,
    )


def _emptied(text: str | None) -> str | None:
    """Return the NUMA nodes of a host with nothing on them; text that is no such is
    left as it is."""
    try:
        topology = parse_object(parse_json(text or 'null'))
    except (ValueError, errors.NovaschedError):
        return text
    if not isinstance(topology, NUMATopology):
        return text
    for cell in topology.cells:
        cell.assign(cpu_usage=0, memory_usage=0, pinned_cpus=set())
        for pages in cell.mempages:
            pages.assign(used=0)
    return json.dumps(topology.obj_to_primitive())


def _set_trait(
    text: str, host: str, trait: str, has: bool, what_if: WhatIf, rows: CloudRows
) -> None:
    """``trait HOST +T`` and ``trait HOST -T``"""
    uuids = _uuids(rows, hosts_named(text, host, rows))
    what_if.edit(lambda contents: edits.with_trait(contents, uuids, trait, has))


def _set_members(
    text: str, name: str, signed: Sequence[str], what_if: WhatIf, rows: CloudRows
) -> None:
    """``aggregate A +HOST -HOST``"""
    place = _aggregate(text, name, rows)
    for each in signed:
        if each[:1] not in ('+', '-'):
            raise problem(text, f'{each} is neither +HOST nor -HOST')
        hosts, are = hosts_named(text, each[1:], rows), each[0] == '+'
        found = rows.aggregates[place]
        members = found.hosts | hosts if are else found.hosts - hosts
        rows.aggregates[place] = replace(found, hosts=frozenset(members))
        if found.uuid is not None:
            uuids, aggregate = _uuids(rows, hosts), found.uuid
            what_if.edit(
                partial(
                    edits.with_members,
                    uuids=uuids,
                    aggregate=aggregate,
                    are=are,
                )
            )


def _set_property(
    text: str, name: str, key: str, value: str, what_if: WhatIf, rows: CloudRows
) -> None:
    """``property A key=value``"""
    place = _aggregate(text, name, rows)
    found = rows.aggregates[place]
    metadata = {**found.metadata, key: value}
    rows.aggregates[place] = replace(found, metadata=metadata)


def _set_ratio(
    text: str, name: str, value: str, where: str, what_if: WhatIf, rows: CloudRows
) -> None:
    """``ratio CLASS=NUMBER [A|HOST]``; without a place, of all hosts."""
    try:
        ratio = float(value)
    except ValueError:
        ratio = 0.0
    if not 0 < ratio < 1e6:
        raise problem(text, f'{value} is no ratio')
    members = [a.hosts for a in rows.aggregates if where in (a.name, a.uuid)]
    hosts = members[0] if members else hosts_named(text, where, rows)
    column = RATIO_COLUMNS.get(name)
    before: dict[str, float] = {}
    for nodes in rows.nodes.values():
        for place, row in enumerate(nodes):
            if row.host in hosts and row.uuid:
                old = getattr(row, column) if column else None
                before[row.uuid] = old or 1.0
                if column:
                    changed: dict[str, Any] = {column: ratio}
                    nodes[place] = row._replace(**changed)
    what_if.edit(lambda contents: edits.with_ratio(contents, before, name, ratio))

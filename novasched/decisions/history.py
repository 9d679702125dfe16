# SPDX-License-Identifier: Apache-2.0
"""A request kept whole: all that its decision is made of, as one JSON document.

The document is a history with one request. docs/reference/shadow-replay.md has its
form. Hosts are rows in the order in which they were offered; a long text stands once.
"""

from __future__ import annotations

import importlib.metadata
import ipaddress
import json
import logging
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from itertools import takewhile
from typing import Any

import numpy as np

from novasched.cluster.host_columns import DTYPES, KINDS
from novasched.decisions.recording import InstanceDecision, RequestRecorder
from novasched.objects.base import NovaObject
from novasched.objects.instance import KnownInstance
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Candidates
from novasched.releases import Release
from novasched.runtime.times import TIME, time_of
from novasched.runtime.typed_json import to_json
from novasched.scheduler.aggregates import Aggregate
from novasched.scheduler.columns import Categories, Lazy, PerHost
from novasched.scheduler.fit.parse import (
    DATA,
    NAME,
    HostPools,
    HostTopology,
    host_topology,
)
from novasched.scheduler.hosts import HostTable, Member, Snapshot
from novasched.scheduler.trace import Decision

LOG = logging.getLogger(__name__)

FORM = 1
"""Version of the document. A field that is added needs no new one."""
LONGEST_INLINE = 64
OPTIONS: Mapping[str, Sequence[str] | None] = {
    'DEFAULT': ('default_availability_zone',),
    'compute': ('packing_host_numa_cells_allocation_strategy',),
    'filter_scheduler': None,
    'metrics': None,
    'novasched': ('numa_compat', 'own_alternates'),
    'scheduler': ('driver', 'max_attempts'),
}
"""Options that a decision depends on, by group; None for all of a group."""
MOST_BYTES = 2 << 20
"""A document that takes more is not kept, so that it displaces no records."""
PER_REQUEST = frozenset({'allocation_candidates', 'limits'})
SECRET = frozenset({'transport_url', 'database_connection'})
"""Fields of cell mappings that hold passwords."""
MEMBER = 'member'
"""In the place of a flavor: a member of a server group that was placed just before."""

Document = dict[str, Any]


def decisive_options(conf: Any) -> dict[str, dict[str, Any]]:
    """Return the options that decisions depend on, by group."""
    found = {}
    for group, names in OPTIONS.items():
        options = conf if group == 'DEFAULT' else conf[group]
        found[group] = {name: options[name] for name in sorted(names or options)}
    return found


def last_turns(recorder: RequestRecorder) -> list[InstanceDecision]:
    """Return the decisions of the last round, in the order of the servers."""
    turns = recorder.turns
    ahead = len(list(takewhile(lambda turn: turn.index, reversed(turns))))
    return turns[-ahead - 1 :]


def encoded(
    recorder: RequestRecorder,
    options: Mapping[str, Mapping[str, Any]],
    release: Release,
) -> bytes | None:
    """Return a request as it is stored; None if it cannot be made again, or is too
    large."""
    made = document(recorder, options, release)
    if made is None:
        return None
    stored = zlib.compress(json.dumps(made).encode(), zlib.Z_BEST_SPEED)
    if len(stored) > MOST_BYTES:
        LOG.info('Request %s is not kept whole: %d bytes', recorder.id, len(stored))
        return None
    return stored


def decoded(stored: bytes) -> Document:
    """Return a document as it is stored. Raises ValueError."""
    try:
        return read(zlib.decompress(stored))
    except zlib.error as problem:
        raise ValueError(f'it is broken: {problem}') from problem


def read(text: str | bytes) -> Document:
    """Return the document in a text. Raises ValueError for one of another form."""
    found: Any = json.loads(text)
    form = found.get('history') if isinstance(found, dict) else None
    if not isinstance(form, int):
        raise ValueError('it is no history of a request')
    if form > FORM:
        raise ValueError(
            f'it was written by a later release, novasched {found.get("novasched")}: '
            f'its form is {form}, and this release reads {FORM}'
        )
    kept: Document = found
    return kept


def document(
    recorder: RequestRecorder,
    options: Mapping[str, Mapping[str, Any]],
    release: Release,
) -> Document | None:
    """Return a request that has ended, as a document; None without a decision."""
    turns = last_turns(recorder)
    first = turns[0].decision if turns else None
    if first is None:
        return None
    texts: dict[str, int] = {}
    aggregates: dict[int, tuple[int, Aggregate]] = {}
    rows = _rows(first.hosts, texts, aggregates)
    offered = first.hosts.snapshot.column('allocation_candidates')
    several = len(recorder.instance_uuids or ()) > 1
    candidates = [list(offered.item(row) or ()) for row in first.hosts.rows.tolist()]
    places = {row: place for place, row in enumerate(first.hosts.rows.tolist())}
    nodes = [s[0].nodename for s in recorder.answer] if recorder.answer else []
    uuids = recorder.instance_uuids
    return {
        'history': FORM,
        'novasched': importlib.metadata.version('novasched'),
        'profile': {'nova_release': release.number, 'options': options},
        'state': {
            'hosts': rows,
            'aggregates': [_of_aggregate(each) for _, each in aggregates.values()],
            'texts': list(texts),
        },
        'requests': [
            {
                'seq': 1,
                'id': recorder.id,
                'time': time_of(int(recorder.at * 1e6), TIME),
                'request_id': recorder.context.request_id,
                'spec': _without_secrets(first.request.obj_to_primitive()),
                'instance_uuids': None if uuids is None else list(uuids),
                'seed': first.seed,
                'candidates': candidates,
                'capacity': _capacity(recorder, candidates) if several else {},
                'decisions': [
                    {
                        'index': turn.index,
                        'host': turn.host,
                        'node': nodes[turn.index] if turn.index < len(nodes) else None,
                        'trace': turn.decision and trace(turn.decision, places),
                    }
                    for turn in turns
                ],
                'nova': to_json(list(recorder.compared)),
            }
        ],
    }


def trace(
    decision: Decision, places: Mapping[int, int] | Sequence[int]
) -> dict[str, Any]:
    """Return the outcome of each host of a decision, by the place of its row."""
    rejected = [
        [step.name, [places[row] for row in step.rejected.rows.tolist()]]
        for step in decision.steps
    ]
    return {
        'ranked': [places[row] for row in decision.ranked.rows.tolist()],
        'totals': [_number(total) for total in decision.totals.tolist()],
        'rejected': rejected,
    }


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _without_secrets(value: Any) -> Any:
    """Return a primitive without the passwords of cell mappings."""
    if isinstance(value, Mapping):
        return {k: _without_secrets(v) for k, v in value.items() if k not in SECRET}
    if isinstance(value, list | tuple | set | frozenset):
        return [_without_secrets(each) for each in value]
    return value


def _capacity(
    recorder: RequestRecorder, candidates: Sequence[Sequence[Any]]
) -> dict[str, Any]:
    """Return the capacity and the usage of the providers of the candidates."""
    answer = recorder.queries[-1].answer if recorder.queries else None
    if not isinstance(answer, Candidates):
        return {}
    uuids = {u for many in candidates for each in many for u in each['allocations']}
    return {
        uuid: {'resources': answer.summaries[uuid]['resources']}
        for uuid in sorted(uuids)
        if uuid in answer.summaries
    }


# -- rows


def _rows(
    hosts: HostTable,
    texts: dict[str, int],
    aggregates: dict[int, tuple[int, Aggregate]],
) -> list[dict[str, Any]]:
    """Return the hosts, one row each, without what is None; columns that no filter or
    weigher has read are left out. Long texts and aggregates are added to the
    others; rows name them by their place."""
    snapshot, columns = hosts.snapshot, {}
    for name in sorted(snapshot.names - PER_REQUEST):
        raw = snapshot.raw(name)
        if isinstance(raw, Lazy) and not raw.is_made:
            continue
        write = _WRITERS.get(name, _plain)
        columns[name] = map(write, snapshot.column(name)[hosts.rows].tolist())
    rows = []
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        for name, value in row.items():
            is_text = KINDS.get(name) is str and isinstance(value, str)
            if is_text and len(value) > LONGEST_INLINE:
                row[name] = {'text': texts.setdefault(value, len(texts))}
        row['aggregates'] = [
            aggregates.setdefault(id(each), (len(aggregates), each))[0]
            for each in row['aggregates']
        ]
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _of_aggregate(aggregate: Aggregate) -> dict[str, Any]:
    return {
        'id': aggregate.id,
        'uuid': aggregate.uuid,
        'name': aggregate.name,
        'hosts': sorted(aggregate.hosts),
        'metadata': dict(aggregate.metadata),
    }


def _topology_text(topology: HostTopology | None) -> str | None:
    """Return the text of a topology: what the compute wrote, or as it would write it
    with what was picked since."""
    if topology is None or topology.text is not None:
        return None if topology is None else topology.text
    cells = []
    for cell in topology.cells:
        values = {each.name: getattr(cell, each.name) for each in fields(cell)}
        near = cell.network_metadata
        values['mempages'] = [{DATA: pages._asdict()} for pages in cell.mempages]
        values['network_metadata'] = None if near is None else {DATA: near._asdict()}
        cells.append({DATA: values})
    return json.dumps({NAME: 'NUMATopology', DATA: {'cells': cells}}, default=sorted)


def _pools_text(pools: HostPools) -> str | None:
    return pools.text if not pools.pools else pools.text or json.dumps(pools.pools)


def _times_as_text(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the row of a service; times are text."""
    if row is None:
        return None
    return {
        name: value.isoformat() if hasattr(value, 'isoformat') else value
        for name, value in row.items()
    }


def _flavors(instances: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the flavor of each instance by uuid, as far as it is known."""
    return None if instances is None else {u: _flavor(i) for u, i in instances.items()}


def _flavor(instance: Any) -> int | str | None:
    if isinstance(instance, Member):
        return MEMBER
    if isinstance(instance, NovaObject):
        found: int | None = instance.if_set('instance_type_id')
        return found
    return getattr(instance, 'instance_type_id', None)


_WRITERS: Mapping[str, Callable[[Any], Any]] = {
    'aggregates': list,
    'host_ip': lambda value: None if value is None else str(value),
    'instances': _flavors,
    'numa_topology': _topology_text,
    'pci_stats': _pools_text,
    'service': _times_as_text,
    'updated': lambda value: None if value is None else value.isoformat(),
}


# -- and back


def request_of(kept: Document) -> RequestSpec:
    """Return the request for the first server. Raises errors.RequestError."""
    return RequestSpec.obj_from_primitive(kept['requests'][0]['spec'])


def hosts_of(kept: Document) -> HostTable:
    """Return the hosts as they were offered. Raises LookupError, TypeError and
    ValueError for a document of another form."""
    state = kept['state']
    aggregates = [_aggregate(each) for each in state['aggregates']]
    rows, columns = state['hosts'], dict[str, Any]()
    for name, kind in _KINDS.items():
        values = [_in_full(row.get(name), state['texts']) for row in rows]
        if kind is str:
            columns[name] = _categories(values, _READERS.get(name))
        elif kind is object:
            column: Any = np.empty(len(rows), object)
            read = _READERS.get(name, lambda value: value)
            column[:] = [read(value) for value in values]
            columns[name] = column
        else:
            none = math.nan if kind is float else 0
            known = [none if value is None else value for value in values]
            columns[name] = np.array(known, DTYPES.get(kind, kind))
    groups = [tuple(aggregates[n] for n in row['aggregates']) for row in rows]
    columns['aggregates'] = _categories(groups, None)
    names = columns['host'].tolist()
    columns['instances'][:] = [
        {uuid: _instance(uuid, host, found) for uuid, found in instances.items()}
        for host, instances in zip(names, columns['instances'].tolist(), strict=True)
    ]
    candidates = kept['requests'][0]['candidates']
    columns['allocation_candidates'] = PerHost(
        len(rows), lambda row: list(candidates[row])
    )
    columns['limits'] = PerHost(len(rows), lambda row: {})
    return HostTable(Snapshot(columns))


def _in_full(value: Any, texts: Sequence[str]) -> Any:
    is_long = isinstance(value, dict) and value.keys() == {'text'}
    return texts[value['text']] if is_long else value


def _categories(values: list[Any], read: Callable[[Any], Any] | None) -> Any:
    """Return a column in which equal values are one, each read once."""
    codes: dict[Any, int] = {}
    keys = [
        json.dumps(v) if isinstance(v, list) else (type(v), _key(v)) for v in values
    ]
    numbers = [codes.setdefault(key, len(codes)) for key in keys]
    firsts = [values[keys.index(key)] for key in codes]
    return Categories(
        firsts if read is None else list(map(read, firsts)), np.array(numbers, np.intp)
    )


def _key(value: Any) -> Any:
    return tuple(map(id, value)) if isinstance(value, tuple) else value


def _aggregate(row: Mapping[str, Any]) -> Aggregate:
    return Aggregate(**{**row, 'hosts': frozenset(row['hosts'])})


def _instance(uuid: str, host: str, flavor: Any) -> KnownInstance:
    kind = Member if flavor == MEMBER else KnownInstance
    return kind(uuid, host, None if flavor == MEMBER else flavor)


_KINDS: Mapping[str, type] = {
    **KINDS,
    'cell_uuid': str,
    'service': object,
    'service_disabled': bool,
    'service_up': bool,
    'instances': object,
    'instance_images': object,
}
_READERS: Mapping[str, Callable[[Any], Any]] = {
    'host_ip': lambda text: None if text is None else ipaddress.ip_address(text),
    'instance_images': lambda found: found or {},
    'instances': lambda found: found or {},
    'numa_topology': host_topology,
    'pci_stats': HostPools,
    'service': lambda row: row or {},
    'stats': lambda found: found or {},
    'updated': lambda text: None if text is None else datetime.fromisoformat(text),
}

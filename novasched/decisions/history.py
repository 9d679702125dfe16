# SPDX-License-Identifier: Apache-2.0
"""A request kept whole: all that its decision is made of, as one JSON document.

The document is a history with one request. docs/reference/shadow-replay.md has its
form. Hosts are rows in the order in which they were offered.
"""

from __future__ import annotations

import importlib.metadata
import ipaddress
import json
import logging
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import takewhile
from typing import Any

import numpy as np

from novasched.cluster.host_columns import KINDS, HostColumns
from novasched.decisions.recording import InstanceDecision, RequestRecorder
from novasched.objects.base import DATA, NAME, NAMESPACE, VERSION, NovaObject
from novasched.objects.instance import KnownInstance
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Candidates
from novasched.releases import Release
from novasched.runtime.times import TIME, time_of
from novasched.runtime.typed_json import to_json
from novasched.scheduler.aggregates import Aggregate
from novasched.scheduler.columns import Categories, Floats, Lazy, PerHost
from novasched.scheduler.flavor_sizes import FlavorSize
from novasched.scheduler.hosts import HostTable, Member, Snapshot
from novasched.scheduler.trace import Decision, Step

LOG = logging.getLogger(__name__)

FORM = 1
"""Version of the document. A field that is added needs no new one."""
MOST_BYTES = 2 << 20
"""A document that takes more is not kept, so that it displaces no records."""
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
PER_REQUEST = frozenset({'allocation_candidates', 'limits'})
PRIVATE = frozenset(
    {'database_connection', 'requested_networks', 'security_groups', 'transport_url'}
)
"""Fields of objects that hold passwords, addresses and texts of users: no rule reads
them."""
_PLAIN = (str, int, float, type(None))
_NESTED = (NovaObject, dict, list, tuple)
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


def encoded(
    recorder: RequestRecorder,
    options: Mapping[str, Mapping[str, Any]],
    release: Release,
) -> bytes | None:
    """Return a request that has ended, as it is stored; None without a decision, or if
    it is too large."""
    made = _document(recorder, options, release)
    text = '' if made is None else json.dumps(made, default=plain)
    stored = zlib.compress(text.encode(), zlib.Z_BEST_SPEED)
    if len(stored) > MOST_BYTES:
        LOG.info('Request %s is not kept whole: %d bytes', recorder.id, len(stored))
    return stored if text and len(stored) <= MOST_BYTES else None


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


def first_decision(recorder: RequestRecorder) -> Decision | None:
    """Return the last decision for the first server."""
    found = [turn.decision for turn in recorder.turns if not turn.index]
    return found[-1] if found else None


def last_turns(
    recorder: RequestRecorder,
) -> Iterator[tuple[InstanceDecision, str | None]]:
    """Yield the last decision for each server, with the node that was answered."""
    ahead = len(list(takewhile(lambda turn: turn.index, reversed(recorder.turns))))
    nodes = [chosen[0].nodename for chosen in recorder.answer or ()]
    for turn in recorder.turns[-ahead - 1 :]:
        yield turn, nodes[turn.index] if turn.index < len(nodes) else None


def decisions(recorder: RequestRecorder) -> list[dict[str, Any]]:
    """Return the last decision for each server, with the outcome of each host.

    Between the first server and the last, the picked host alone is known.
    """
    turns = list(last_turns(recorder))
    rows = turns[0][0].offered.tolist() if turns else []
    places = {row: place for place, row in enumerate(rows)}
    return [
        {
            'index': turn.index,
            'host': turn.host,
            'node': node,
            'trace': turn.decision and trace(turn.decision, places),
        }
        for turn, node in turns
    ]


def trace(decision: Decision, places: Mapping[int, int]) -> dict[str, Any]:
    """Return the outcome of each host of a decision, by the place of its row."""
    return {
        'ranked': [places[row] for row in decision.ranked.rows.tolist()],
        'totals': totals_of(decision.totals),
        'rejected': [[step.name, _places(step, places)] for step in decision.steps],
    }


def totals_of(totals: Floats) -> list[float | str]:
    """Return totals as they are in a trace: texts, where JSON has no number."""
    found: list[float | str] = totals.tolist()
    if np.isfinite(totals).all():
        return found
    return [each if math.isfinite(each) else str(each) for each in totals.tolist()]


def _places(step: Step, places: Mapping[int, int]) -> list[int]:
    """Return the places of the hosts that a filter rejected."""
    rejected = [] if step.passed_all else step.rejected.rows.tolist()
    return [places[row] for row in rejected]


def _document(
    recorder: RequestRecorder,
    options: Mapping[str, Mapping[str, Any]],
    release: Release,
) -> Document | None:
    first = first_decision(recorder)
    if first is None:
        return None
    offered = first.hosts.snapshot.column('allocation_candidates')
    candidates = [list(offered.item(row) or ()) for row in first.hosts.rows.tolist()]
    uuids = recorder.instance_uuids
    return {
        'history': FORM,
        'novasched': importlib.metadata.version('novasched'),
        'profile': {'nova_release': release.number, 'options': options},
        'state': state_of(first.hosts),
        'requests': [
            {
                'seq': 1,
                'id': recorder.id,
                'time': time_of(int(recorder.at * 1e6), TIME),
                'request_id': recorder.context.request_id,
                'spec': primitive_of(first.request),
                'instance_uuids': None if uuids is None else list(uuids),
                'seed': first.seed,
                'candidates': candidates,
                'capacity': capacity(recorder, first.hosts),
                'decisions': decisions(recorder),
                'nova': to_json(list(recorder.compared)),
            }
        ],
    }


def primitive_of(value: Any) -> Any:
    """Return an object, or a value of one, as nova sends it, without changes and fields
    that are PRIVATE. It takes a fifth of the time of obj_to_primitive()."""
    if isinstance(value, NovaObject):
        return {
            NAME: value.obj_name(),
            NAMESPACE: value.OBJ_PROJECT_NAMESPACE,
            VERSION: value.VERSION,
            DATA: {
                name: each
                if isinstance(each, _PLAIN)
                else primitive_of(each)
                if isinstance(each, _NESTED)
                else value.fields[name].to_primitive(value, name, each)
                for name, each in value.set_fields().items()
                if name not in PRIVATE
            },
        }
    if isinstance(value, dict):
        return {k: primitive_of(v) for k, v in value.items() if k not in PRIVATE}
    if isinstance(value, list | tuple):
        return [primitive_of(each) for each in value]
    return value


def capacity(recorder: RequestRecorder, hosts: HostTable) -> dict[str, Any]:
    """Return the capacity and the usage of the providers of the picked hosts, which
    count for several servers."""
    answer = recorder.queries[-1].answer if recorder.queries else None
    if not isinstance(answer, Candidates) or len(recorder.instance_uuids or ()) < 2:
        return {}
    picked = {turn.host for turn in recorder.turns}
    offered = hosts.snapshot.column('allocation_candidates')
    uuids = {
        uuid
        for row, host in zip(hosts.rows.tolist(), hosts.host.tolist(), strict=True)
        if host in picked
        for candidate in offered.item(row) or ()
        for uuid in candidate['allocations']
    }
    return {
        uuid: {'resources': answer.summaries[uuid]['resources']}
        for uuid in sorted(uuids)
        if uuid in answer.summaries
    }


# -- rows


def state_of(hosts: HostTable) -> dict[str, Any]:
    """Return the hosts, one row each, without what is None; columns that no filter or
    weigher has read are left out. Rows name aggregates and long texts by their place in
    lists."""
    snapshot, columns = hosts.snapshot, {}
    for name in sorted(snapshot.names - PER_REQUEST):
        raw = snapshot.raw(name)
        if not isinstance(raw, Lazy) or raw.is_made:
            values = snapshot.column(name)[hosts.rows].tolist()
            columns[name] = map(WRITERS.get(name, unless_nan), values)
    texts: dict[str, int] = {}
    aggregates: dict[int, tuple[int, Aggregate]] = {}
    rows = []
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        row['aggregates'] = [
            aggregates.setdefault(id(each), (len(aggregates), each))[0]
            for each in row['aggregates']
        ]
        for name, value in row.items():
            is_text = KINDS.get(name) is str and isinstance(value, str)
            if is_text and len(value) > LONGEST_INLINE:
                row[name] = {'text': texts.setdefault(value, len(texts))}
        rows.append({name: value for name, value in row.items() if value is not None})
    known = [asdict(each) for _, each in aggregates.values()]
    return {'hosts': rows, 'aggregates': known, 'texts': list(texts)}


def plain(value: Any) -> Any:
    """Return the text of a time or an address, which have no form in JSON."""
    return sorted(value) if isinstance(value, set | frozenset) else str(value)


def unless_nan(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _flavors(instances: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flavor of each instance by uuid, as far as it is known."""
    return {uuid: flavor_of(instance) for uuid, instance in (instances or {}).items()}


def flavor_of(instance: Any) -> Any:
    if isinstance(instance, Member):
        return MEMBER
    if isinstance(instance, NovaObject):
        return instance.if_set('instance_type_id')
    return getattr(instance, 'instance_type_id', None)


WRITERS: Mapping[str, Callable[[Any], Any]] = {
    'instances': _flavors,
    'is_source': lambda is_source: is_source or None,
    'numa_topology': lambda topology: None if topology is None else topology.text,
    'pci_stats': lambda pools: None if pools is None else pools.text,
    'public_flavors': lambda sizes: sizes or None,
}
_READERS: Mapping[str, Callable[[Any], Any]] = {
    'host_ip': ipaddress.ip_address,
    'supported_instances': json.dumps,
    'updated': datetime.fromisoformat,
}


# -- and back


def request_of(recorded: Mapping[str, Any]) -> RequestSpec:
    """Return the request for the first server. Raises errors.RequestError."""
    return RequestSpec.obj_from_primitive(recorded['spec'])


def hosts_of(kept: Document) -> HostTable:
    """Return the hosts as they were offered. Raises LookupError, TypeError and
    ValueError for a document of another form."""
    state = kept['state']
    rows, texts = state['hosts'], state['texts']
    own = HostColumns()
    own.apply(
        {
            (row['cell_uuid'], place): values_of(row, texts)
            for place, row in enumerate(rows)
        }
    )
    aggregates = [aggregate_of(row) for row in state['aggregates']]
    groups: dict[tuple[int, ...], int] = {}
    codes = [groups.setdefault(tuple(r['aggregates']), len(groups)) for r in rows]
    candidates = kept['requests'][0]['candidates']
    columns = {
        **own.columns(),
        **columns_read(rows),
        **columns_of_request(rows, lambda place: list(candidates[place])),
        'aggregates': Categories(
            [tuple(aggregates[n] for n in group) for group in groups],
            np.array(codes, np.intp),
        ),
    }
    for name in ('service_disabled', 'service_up'):
        columns[name] = np.array([row[name] for row in rows], bool)
    columns |= columns_of_weighers(rows)
    return HostTable(Snapshot(columns))


def values_of(row: Mapping[str, Any], texts: Sequence[str] = ()) -> dict[str, Any]:
    """Return the values of a row as HostColumns takes them."""
    return {name: _value(name, row.get(name), texts) for name in KINDS}


def _value(name: str, value: Any, texts: Sequence[str]) -> Any:
    if isinstance(value, dict) and value.keys() == {'text'}:
        return texts[value['text']]
    if value is None:
        return {} if name == 'stats' else None
    return _READERS[name](value) if name in _READERS else value


def aggregate_of(row: Mapping[str, Any]) -> Aggregate:
    return Aggregate(**{**row, 'hosts': frozenset(row['hosts'])})


def columns_read(rows: Sequence[Mapping[str, Any]]) -> dict[str, PerHost]:
    """Return the columns of objects that are made when a host is looked at."""

    def instances(place: int) -> dict[str, KnownInstance]:
        row = rows[place]
        return {
            uuid: Member(uuid, row['host'])
            if flavor == MEMBER
            else KnownInstance(uuid, row['host'], flavor)
            for uuid, flavor in row.get('instances', {}).items()
        }

    made: dict[str, Callable[[int], Any]] = {
        'instances': instances,
        'instance_images': lambda place: rows[place].get('instance_images', {}),
        'service': lambda place: rows[place].get('service', {}),
    }
    return {name: PerHost(len(rows), make) for name, make in made.items()}


def columns_of_request(
    rows: Sequence[Any], candidates: Callable[[int], list[Any]]
) -> dict[str, PerHost]:
    """Return the columns that are new for each request."""
    return {
        'allocation_candidates': PerHost(len(rows), candidates),
        'limits': PerHost(len(rows), lambda place: {}),
    }


OF_WEIGHERS = ('failed_builds', 'is_source', 'public_flavors', 'recent_failed_builds')
"""Keys of rows that columns_of_weighers() reads."""


def columns_of_weighers(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the columns that only weighers of ours read."""
    listed = rows[0].get('public_flavors') or () if rows else ()
    sizes = tuple(map(FlavorSize._make, listed))
    recent = [row.get('recent_failed_builds', row['failed_builds']) for row in rows]
    return {
        'is_source': np.array([row.get('is_source', False) for row in rows], bool),
        'public_flavors': Categories([sizes], np.zeros(len(rows), np.intp)),
        'recent_failed_builds': np.array(recent, np.int64),
    }

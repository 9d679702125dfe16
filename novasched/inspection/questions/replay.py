# SPDX-License-Identifier: Apache-2.0
"""Make the decision of a kept request again, and compare it host by host.

The driver decides as it did: on the hosts of the document, with its options and seed.
Every claim is granted, and each server takes the host that it took.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from oslo_config import cfg

from novasched import errors, plugins
from novasched.claiming.attempt import RequestAttempt
from novasched.claiming.claims import Claims
from novasched.claiming.host_candidates import ALL_HOSTS, RemainingCapacity
from novasched.claiming.request import ScheduleRequest
from novasched.compat import driver_loading
from novasched.decisions import history
from novasched.decisions.history import Document
from novasched.drivers import DriverContext
from novasched.objects.context import RequestContext
from novasched.placement.claimless import ClaimlessPlacement
from novasched.ports import Candidates, ClaimRequest
from novasched.ports.decisions import DecisionRecorder
from novasched.process import opts
from novasched.releases import NEWEST, named
from novasched.scheduler.hosts import HostTable
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.trace import Decision

Trace = Mapping[str, Any]
NOTHING: Trace = {'ranked': [], 'totals': [], 'rejected': []}


@dataclass(frozen=True)
class HostDifference:
    """The first host whose outcome is another one, with both outcomes; the steps are
    the filters that rejected hosts, with their number."""

    server: int
    host: str
    recorded: str
    again: str
    recorded_steps: Sequence[str] = ()
    again_steps: Sequence[str] = ()
    hosts: int = 1  # with another outcome, in all decisions


@dataclass(frozen=True)
class ReplayedServer:
    """A server: the host that was recorded and the one of the replay, what became of
    both in the replay, and what nova chose."""

    server: str | None
    recorded: str | None
    again: str | None
    ours: str = ''
    nova: str | None = None
    nova_here: str = ''
    verdict: str = ''
    cause: str = ''


@dataclass(frozen=True)
class ReplayReport:
    id: str
    request_id: str | None
    time: str
    is_equal: bool
    hosts: int
    servers: Sequence[ReplayedServer]
    difference: HostDifference | None = None
    error: str | None = None  # that ended the replay; no host is none


@dataclass
class _Traces(DecisionRecorder):
    """What each decision did with each host, and what was picked, by server."""

    traces: dict[int, Trace] = field(default_factory=dict)
    picks: dict[int, str] = field(default_factory=dict)
    last: int = 0

    def decided(self, decision: Decision, index: int | None = None) -> None:
        if index is not None:
            places = range(len(decision.hosts.snapshot))
            self.traces[index], self.last = history.trace(decision, places), index

    def picked(self, host: str, cells: Sequence[int]) -> None:
        self.picks[self.last] = host


class _Seed(random.Random):
    """Gives the seed of the decisions."""

    def __init__(self, kept: int) -> None:
        super().__init__()
        self._kept = kept

    def getrandbits(self, k: int) -> int:
        return self._kept


class _View:
    """The hosts of a document, as drivers ask a view for them."""

    def __init__(self, hosts: HostTable) -> None:
        self._hosts = hosts

    def hosts(self, *asked: Any) -> HostTable:
        return self._hosts

    def node_uuids(self) -> Sequence[str]:
        return ()

    def unavailable_cells(self, *asked: Any) -> Sequence[str]:
        return ()


@dataclass(eq=False)
class _RecordedPicks(RequestAttempt):
    """Lets each server have the nodes that it may have taken then, by uuid."""

    nodes: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def may_claim(self, wanted: ClaimRequest) -> bool:
        allowed = self.nodes.get(wanted.consumer_uuid)
        return allowed is None or wanted.node_uuid in allowed


def configuration(kept: Document) -> cfg.ConfigOpts:
    """Return the configuration that the document was decided by. Options that this
    release does not know have no effect."""
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], project='nova', default_config_files=[], default_config_dirs=[])
    for group, options in kept['profile']['options'].items():
        of_group = None if group == 'DEFAULT' else group
        for name, value in options.items():
            if name in (conf if of_group is None else conf[group]):
                conf.set_override(name, value, of_group)
    return conf


def replay(kept: Document, profile: Profile | None = None) -> ReplayReport:
    """Make a decision again; ``profile`` replaces what the options name. Raises
    errors.SetupError for plugins that are not installed."""
    request, hosts = kept['requests'][0], history.hosts_of(kept)
    traces = _Traces()
    error = _decide(kept, hosts, traces, profile)
    names = hosts.host.tolist()
    difference = _difference(request['decisions'], traces.traces, names)
    recorded = {each['index']: each for each in request['decisions']}
    picks_differ = any(
        made['host'] is not None and made['host'] != traces.picks.get(index)
        for index, made in recorded.items()
    )
    return ReplayReport(
        id=request['id'],
        request_id=request['request_id'],
        time=request['time'],
        is_equal=difference is None and error is None and not picks_differ,
        hosts=len(names),
        servers=_servers(request, recorded, traces, names),
        difference=difference,
        error=error,
    )


def _decide(
    kept: Document, hosts: HostTable, traces: _Traces, profile: Profile | None
) -> str | None:
    """Let the driver decide; return the error that ended it, but for no host."""
    conf, request = configuration(kept), kept['requests'][0]
    if profile is None:
        release = named(str(kept['profile']['nova_release'])) or NEWEST
        profile = plugins.profile_from_conf(conf).of_release(release)
    nothing: Any = SimpleNamespace(answers=None, aggregates=None)
    placement, view = ClaimlessPlacement(nothing), cast(Any, _View(hosts))
    context = DriverContext(
        profile=profile,
        view=view,
        placement=placement,
        rng=_Seed(request['seed']),
        max_attempts=conf.scheduler.max_attempts,
        default_availability_zone=conf.default_availability_zone,
        own_alternates=conf.novasched.own_alternates,
        enforce_groups=False,
        enforce_capacity=False,
    )
    driver = driver_loading.driver_from_conf(conf, context)
    uuids, spec = request['instance_uuids'], history.request_of(kept)
    claims = driver.USES_ALLOCATION_CANDIDATES and not spec.is_rebuild
    offered = [each for many in request['candidates'] for each in many]
    asked = ScheduleRequest(
        context=RequestContext(overwrite=False),
        spec=spec,
        instance_uuids=uuids or (),
        names_instances=uuids is not None,
        candidates=Candidates(offered, '', request['capacity'])
        if claims
        else ALL_HOSTS,
        recorder=traces,
        attempt=_RecordedPicks(nodes=_nodes(request, hosts)),
    )
    try:
        if not claims or uuids is None:
            driver.select_destinations(asked)
            return None
        remaining = RemainingCapacity(request['capacity'])
        with Claims(
            placement, asked.context, '', remaining, attempt=asked.attempt
        ) as made:
            driver.select_destinations(asked.claimed_by(made))
    except errors.NoValidHost:
        pass
    except errors.RequestError as problem:
        return str(problem)
    return None


def _nodes(request: Mapping[str, Any], hosts: HostTable) -> dict[str, frozenset[str]]:
    """Return the nodes of the host that each server took, by its uuid."""
    known = list(
        zip(
            hosts.host.tolist(),
            hosts.nodename.tolist(),
            hosts.uuid.tolist(),
            strict=True,
        )
    )
    uuids, found = request['instance_uuids'] or (), {}
    for made in request['decisions']:
        if made['host'] is not None and made['index'] < len(uuids):
            found[uuids[made['index']]] = frozenset(
                uuid
                for host, node, uuid in known
                if host == made['host'] and made['node'] in (None, node)
            )
    return found


# -- what became of each host


class _Outcome(NamedTuple):
    """What a decision did with a host; a smaller ``stage`` came earlier."""

    stage: float
    text: str


_UNNAMED = _Outcome(-1, 'left out before the filters')


def _outcomes(made: Trace) -> dict[int, _Outcome]:
    """Return the outcome of each host that the request did not exclude, by place."""
    found = {
        place: _Outcome(stage, f'rejected by {name}')
        for stage, (name, places) in enumerate(made['rejected'])
        for place in places
    }
    ranks = zip(made['ranked'], made['totals'], strict=True)
    for rank, (place, total) in enumerate(ranks, 1):
        found[place] = _Outcome(math.inf, f'rank {rank}, weight {total}')
    return found


def _difference(
    recorded: Sequence[Mapping[str, Any]],
    again: Mapping[int, Trace],
    names: Sequence[str],
) -> HostDifference | None:
    """Return the host with another outcome in the earliest stage of the first decision
    that differs. A decision of which the host alone is kept has none."""
    first, hosts = None, 0
    for made in recorded:
        then, index = made['trace'], made['index']
        now = again.get(index, NOTHING)
        if then is None or (index and not then['ranked'] and not now['ranked']):
            continue  # it may have been recorded over more hosts than were left
        before, after = _outcomes(then), _outcomes(now)
        pairs = [
            (place, before.get(place, _UNNAMED), after.get(place, _UNNAMED))
            for place in range(len(names))
        ]
        others = [pair for pair in pairs if pair[1] != pair[2]]
        hosts += len(others)
        if others and first is None:
            place, was, now_is = min(others, key=lambda each: min(each[1:]))
            first = HostDifference(
                index, names[place], was.text, now_is.text, _steps(then), _steps(now)
            )
    return first and replace(first, hosts=hosts)


def _steps(made: Trace) -> list[str]:
    return [
        f'{name} rejected {len(places)}' for name, places in made['rejected'] if places
    ]


def _servers(
    request: Mapping[str, Any],
    recorded: Mapping[int, Mapping[str, Any]],
    traces: _Traces,
    names: Sequence[str],
) -> list[ReplayedServer]:
    """Return each server with its host, and nova's choice beside it."""
    uuids = request['instance_uuids'] or [None] * len(recorded)
    nova = {each['server']: each for each in request['nova']}
    first = traces.traces.get(0, NOTHING)
    servers = []
    for index, uuid in enumerate(uuids):
        made = traces.traces.get(index, NOTHING)
        outcomes = _outcomes(traces.traces.get(index, first))
        best = names[made['ranked'][0]] if made['ranked'] else None
        chosen = nova.get(uuid, {'nova': {}})
        host, ours = chosen['nova'].get('host'), traces.picks.get(index, best)
        servers.append(
            ReplayedServer(
                uuid,
                recorded.get(index, {}).get('host'),
                ours,
                _became(ours, names, outcomes),
                host,
                _became(host, names, outcomes),
                chosen.get('verdict', ''),
                chosen.get('cause', ''),
            )
        )
    return servers


def _became(
    host: str | None, names: Sequence[str], outcomes: Mapping[int, _Outcome]
) -> str:
    """Return the outcome of a host; of several nodes, the one that came farthest."""
    if host is None:
        return ''
    found = [
        outcomes.get(place, _UNNAMED)
        for place, name in enumerate(names)
        if name == host
    ]
    farthest = max(found, key=lambda outcome: outcome.stage, default=None)
    return 'not offered by placement' if farthest is None else farthest.text

# SPDX-License-Identifier: Apache-2.0
"""Make the decision of a kept request again, and compare it host by host.

The driver decides as it did: on the hosts of the document, with its options and seed.
Every claim is granted, and each server takes the host that it took.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from oslo_config import cfg

from novasched import errors, plugins
from novasched.claiming.claims import ClaimedRequest
from novasched.claiming.request import RequestAttempt, ScheduleRequest
from novasched.compat import driver_loading
from novasched.decisions import history
from novasched.decisions.comparison import ServerComparison
from novasched.decisions.history import Document
from novasched.decisions.recording import RequestRecorder
from novasched.drivers import DriverContext
from novasched.objects.context import RequestContext
from novasched.placement.claimless import ClaimlessPlacement
from novasched.ports import ALL_HOSTS, Candidates, ClaimRequest
from novasched.process import opts
from novasched.releases import NEWEST, named
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.typed_json import of_json
from novasched.scheduler.hosts import HostTable

_COMPARED = ('host', 'trace')
OURS = ('nova.', 'novasched.')
"""Beginnings of paths of classes that any document may name."""
Recorded = Mapping[str, Any]
"""A request of a document, or a decision in it."""


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
    """A server, with the host that was recorded and the host of the replay.

    The outcomes of that host and of nova's are of the replay.
    """

    server: str | None
    recorded: str | None
    again: str | None
    again_outcome: str = ''
    nova_outcome: str = ''
    compared: ServerComparison | None = None


@dataclass(frozen=True)
class ReplayReport:
    id: str
    request_id: str | None
    time: str
    is_equal: bool
    hosts: int
    servers: Sequence[ReplayedServer]
    difference: HostDifference | None = None


def replay(kept: Document) -> ReplayReport:
    """Make a decision again. Raises errors.SetupError for plugins that are not
    installed, and errors.RequestError where one fails."""
    hosts = history.hosts_of(kept)
    return Replayer(kept['profile']).report(kept['requests'][0], hosts)


# -- the decision


def foreign_classes(profile: Mapping[str, Any]) -> set[str]:
    """Return the paths of classes of others that a recorded profile would load."""
    return {
        path
        for path in named_classes(_configuration(profile))
        if '.' in path and not path.startswith(OURS)
    }


def named_classes(conf: Any) -> set[str]:
    """Return the paths and names of the classes that a configuration loads."""
    group, driver = conf.filter_scheduler, conf.scheduler.driver
    return {*group.available_filters, *group.weight_classes, driver}


def check_trusted(file: str, foreign: set[str], trusted: Collection[str]) -> None:
    """Raise errors.OptionError for classes of others that are not trusted: who wrote a
    file must not choose what code runs here."""
    if unknown := foreign.difference(trusted):
        raise errors.OptionError(
            file,
            f'it would load {", ".join(sorted(unknown))}, which the configuration '
            'of this machine does not name',
            'If you trust that code, name it in [filter_scheduler] available_filters '
            'or weight_classes, or in [scheduler] driver, of a file for --config-file',
        )


@dataclass(eq=False)
class _RecordedPicks(RequestAttempt):
    """Lets each server have the nodes that it may have taken then, by uuid."""

    nodes: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def may_claim(self, wanted: ClaimRequest) -> bool:
        allowed = self.nodes.get(wanted.consumer_uuid)
        return allowed is None or wanted.node_uuid in allowed


class Replayer:
    """Decides requests of one profile again. It may be used by one thread."""

    def __init__(self, profile: Mapping[str, Any]) -> None:
        self._hosts: HostTable | None = None
        self._seed = 0
        conf = _configuration(profile)
        seen: Any = SimpleNamespace(
            hosts=lambda *asked: self._hosts,
            node_uuids=frozenset,
            unavailable_cells=lambda *asked: (),
        )
        seed: Any = SimpleNamespace(getrandbits=lambda bits: self._seed)
        nothing: Any = SimpleNamespace(answers=None, aggregates=None)
        release = named(str(profile['nova_release'])) or NEWEST
        context = DriverContext.from_conf(
            conf,
            profile=plugins.profile_from_conf(conf).of_release(release),
            view=seen,
            placement=ClaimlessPlacement(nothing),
            rng=seed,
        )
        # Members and usages that placement had are in the rows.
        self._context = context.claimless()
        self._driver = driver_loading.driver_from_conf(conf, self._context)
        # Drivers of ours find the candidates on the hosts.
        is_ours = type(self._driver).__module__.startswith('novasched.drivers.')
        self._reads_candidates = not is_ours

    def report(self, request: Recorded, hosts: HostTable) -> ReplayReport:
        """Decide a request again, and compare every host."""
        again = self._decided(request, hosts)
        names = hosts.host.tolist()
        difference = _difference(request['decisions'], again, names)
        servers = [*_servers(request, again, names)]
        return ReplayReport(
            id=request['id'],
            request_id=request['request_id'],
            time=request['time'],
            is_equal=difference is None
            and all(s.recorded in (None, s.again) for s in servers),
            hosts=len(names),
            servers=servers,
            difference=difference,
        )

    def is_equal(self, request: Recorded, hosts: HostTable) -> bool:
        """Decide a request again; return whether all of it is the same at first sight,
        which costs less than a report."""
        again, recorded = self._decided(request, hosts), request['decisions']
        pairs = [(then, again.get(then['index'], {})) for then in recorded]
        return len(again) == len(recorded) and all(
            then[key] == now.get(key) for then, now in pairs for key in _COMPARED
        )

    def _decided(self, request: Recorded, hosts: HostTable) -> Mapping[int, Recorded]:
        """Let the driver decide; return its decisions, by server."""
        self._hosts, self._seed = hosts, request['seed']
        driver = self._driver
        spec, uuids = history.request_of(request), request['instance_uuids']
        is_offered = driver.USES_ALLOCATION_CANDIDATES and not spec.is_rebuild
        offered = _offered(hosts) if self._reads_candidates else []
        candidates = Candidates(offered, '', request['capacity'])
        asker = RequestContext(overwrite=False)
        recorder = RequestRecorder(
            SYSTEM_CLOCK, random.Random(), asker, spec, uuids, lambda ended: None
        )
        asked = ScheduleRequest(
            asker,
            spec,
            uuids or (),
            names_instances=uuids is not None,
            candidates=candidates if is_offered else ALL_HOSTS,
            recorder=recorder,
            attempt=_RecordedPicks(nodes=_nodes(request, hosts)),
        )
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(errors.NoValidHost))
            if is_offered and uuids is not None:
                asked = ClaimedRequest.of(asked, self._context.placement)
                stack.enter_context(asked.claiming())
            driver.select_destinations(asked)
        return {each['index']: each for each in history.decisions(recorder)}


def _offered(hosts: HostTable) -> list[Any]:
    return [each for host in hosts.states() for each in host.allocation_candidates]


def _configuration(profile: Mapping[str, Any]) -> cfg.ConfigOpts:
    """Return the configuration of a profile that was recorded. Options that this
    release does not know have no effect."""
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], project='nova', default_config_files=[], default_config_dirs=[])
    for group, options in profile['options'].items():
        of_group = None if group == 'DEFAULT' else group
        for name, value in options.items():
            if name in (conf if of_group is None else conf[group]):
                conf.set_override(name, value, of_group)
    return conf


def _nodes(request: Recorded, hosts: HostTable) -> dict[str, frozenset[str]]:
    """Return the nodes of the host that each server took, by its uuid."""
    taken = zip(request['instance_uuids'] or (), request['decisions'], strict=False)
    names, nodes, uuids = hosts.host, hosts.nodename, hosts.uuid
    found = {}
    for server, made in taken:
        if made['host'] is not None:
            places = np.flatnonzero(names == made['host']).tolist()
            found[server] = frozenset(
                uuids[place] for place in places if made['node'] in (None, nodes[place])
            )
    return found


# -- what became of each host


class _ReplayedOutcome(NamedTuple):
    """The outcome of a host in a decision; a smaller ``stage`` came earlier."""

    stage: float
    text: str


_UNNAMED = _ReplayedOutcome(-1, 'left out before the filters')


def _outcomes(made: Recorded | None) -> dict[int, _ReplayedOutcome]:
    """Return the outcome of each host that the request did not exclude, by place."""
    found = made and made['trace']
    if not found:
        return {}
    outcomes = {
        place: _ReplayedOutcome(stage, f'rejected by {name}')
        for stage, (name, places) in enumerate(found['rejected'])
        for place in places
    }
    ranks = zip(found['ranked'], found['totals'], strict=True)
    for rank, (place, total) in enumerate(ranks, 1):
        outcomes[place] = _ReplayedOutcome(math.inf, f'rank {rank}, weight {total}')
    return outcomes


def _difference(
    recorded: Sequence[Recorded], again: Mapping[int, Recorded], names: Sequence[str]
) -> HostDifference | None:
    """Return the host with another outcome in the earliest stage of the first decision
    that differs. A decision of which the host alone is kept has none."""
    first, hosts = None, 0
    for then in recorded:
        index, now = then['index'], again.get(then['index'])
        before, after = _outcomes(then), _outcomes(now)
        if not then['trace'] or (index and not (_best(then) or _best(now))):
            continue  # it may have been recorded over more hosts than were left
        pairs = [
            (before.get(place, _UNNAMED), after.get(place, _UNNAMED), name)
            for place, name in enumerate(names)
        ]
        others = [pair for pair in pairs if pair[0] != pair[1]]
        hosts += len(others)
        if others and first is None:
            was, became, name = min(others, key=lambda pair: min(pair[:2]))
            first = HostDifference(
                index, name, was.text, became.text, _steps(then), _steps(now)
            )
    return first and replace(first, hosts=hosts)


def _best(made: Recorded | None) -> Sequence[int]:
    """Return the place of the best host, if there is one and it is kept."""
    found = made and made['trace']
    return found['ranked'][:1] if found else []


def _steps(made: Recorded | None) -> list[str]:
    found = made and made['trace']
    steps = found['rejected'] if found else []
    return [f'{name} rejected {len(places)}' for name, places in steps if places]


def _servers(
    request: Recorded, again: Mapping[int, Recorded], names: Sequence[str]
) -> Iterator[ReplayedServer]:
    """Yield each server with its host, and nova's choice beside it."""
    found = [of_json(ServerComparison, each) for each in request['nova']]
    compared = {each.server: each for each in found}
    recorded = {each['index']: each for each in request['decisions']}
    for index, uuid in enumerate(request['instance_uuids'] or [None] * len(recorded)):
        then, now = recorded.get(index, {}), again.get(index, {})
        chosen = compared.get(uuid or '')
        host = now.get('host') or next((names[n] for n in _best(now or None)), None)
        outcomes = _outcomes(now if now.get('trace') else again.get(0))
        yield ReplayedServer(
            uuid,
            then.get('host'),
            host,
            _became(host, names, outcomes),
            _became(None if chosen is None else chosen.nova.host, names, outcomes),
            chosen,
        )


def _became(
    host: str | None, names: Sequence[str], outcomes: Mapping[int, _ReplayedOutcome]
) -> str:
    """Return the outcome of a host; of several nodes, the one that came farthest."""
    places = [place for place, name in enumerate(names) if name == host]
    found = [outcomes.get(place, _UNNAMED) for place in places]
    best = max(found, key=lambda outcome: outcome.stage, default=None)
    unknown = 'not offered by placement' if host else ''
    return unknown if best is None else best.text

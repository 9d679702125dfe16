# SPDX-License-Identifier: Apache-2.0
"""Fakes at the ports, in memory, and rows by default."""

import contextlib
import dataclasses
import datetime
import math
import time
from collections import Counter

import numpy as np

from novasched import errors
from novasched.drivers import ClaimedRequest, Driver, ScheduleRequest, ScheduleResult
from novasched.objects.selection import Selection
from novasched.outages import Outages
from novasched.placement.allocations import MOST_ASKED
from novasched.ports import (
    ALL_HOSTS,
    STANDS,
    Candidates,
    Claimed,
    ClaimRefused,
    ClaimUnknown,
    QueryFailed,
    UndoLeft,
)
from novasched.ports.decisions import DecisionRecorder
from tests.support.clouds import factories

NOON = datetime.datetime(2026, 11, 21, 12, 0, 0)  # noqa: DTZ001
SECOND = datetime.timedelta(seconds=1)


class FakeClock:
    """Time that moves by hand; ``seconds`` is what ``monotonic`` says.

    ``advance`` moves both, ``set_back`` the time of day alone.
    """

    def __init__(self, now=NOON, seconds=0.0):
        self.now = now
        self.seconds = seconds

    def utcnow(self):
        return self.now

    def time(self):
        return self.now.replace(tzinfo=datetime.UTC).timestamp()

    def monotonic(self):
        return self.seconds

    def advance(self, seconds):
        self.seconds += seconds
        self.now += seconds * SECOND

    def set_back(self, seconds):
        self.now -= seconds * SECOND


SPEED = 10
"""How many seconds go by in one of those who wait for the end of an outage."""


class FastClock(FakeClock):
    """Time that goes by ten times as fast."""

    def monotonic(self):
        return time.monotonic() * SPEED


class FastOutages(Outages):
    """Outages in which all rests and pauses take a tenth of their time."""

    def rest(self, seconds, until=None):
        return super().rest(seconds / SPEED, until)


VERSION = '1.36'
LAST = 'c0000000-0000-4000-8000-00000000000b'


def candidate(*uuids):
    """A candidate that takes one CPU of each of these providers."""
    return {
        'allocations': {uuid: {'resources': {'VCPU': 1}} for uuid in uuids},
        'mappings': {'': list(uuids)},
    }


class FakePlacement:
    """Offers one candidate per provider, and claims as a script says.

    The script has an outcome per claim, in order: ``claimed``, ``refused`` (the
    last provider of the candidate has no room), ``conflicted`` (others were
    claiming), ``in vain`` (refused for another reason), ``unreachable``, ``unknown``,
    or an exception to be raised; when it is over, all are claimed. ``together`` is the
    outcome for several at once, or those by one of their consumers, and
    ``together_exhausted`` what there was too little of. What the providers have is in
    ``summaries``, as placement has it. ``before`` is what every consumer held already.
    Claims of ``unundone`` consumers stay.
    """

    def __init__(self, *providers, script=(), before=None):
        self.offered = [candidate(uuid) for uuid in providers]
        self.failure = None
        self.script = list(script)
        self.before = before
        self.unundone = set()
        self.known_aggregates = {}
        self.aggregates_asked = []
        self.queries = []
        self.tried = []
        self.summaries = {}
        self.together = 'claimed'
        self.together_exhausted = None
        self.tried_together = []
        self.held = {}
        self.looks = []
        self.looked = 0
        self.undone = []

    def candidates(self, context, query):
        self.queries.append(query)
        if self.failure is not None:
            return self.failure
        return Candidates(tuple(self.offered), VERSION, self.summaries)

    def aggregates(self, context, provider_uuid):
        self.aggregates_asked.append(provider_uuid)
        return self.known_aggregates.get(
            provider_uuid, QueryFailed(404, 'there is none')
        )

    def fail(self, status=503, text='away'):
        """Answer every query with an error from now on."""
        self.failure = QueryFailed(status, text)

    def claim(self, context, wanted, version, project_id, user_id, adds=False, **_):
        consumer, wanted = wanted.consumer_uuid, wanted.candidate
        self.tried.append((consumer, next(iter(wanted['allocations']))))
        self.owner = (project_id, user_id)
        outcome = self.script.pop(0) if self.script else 'claimed'
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome == 'refused':
            return ClaimRefused(409, 'no room', self._exhausted(wanted))
        if outcome == 'conflicted':
            return ClaimRefused(409, 'changed', conflicted=True)
        if outcome == 'in vain':
            return ClaimRefused(503, 'away')
        if outcome == 'unreachable':
            return ClaimRefused(0, 'nobody is there')
        self.held[consumer] = wanted
        if outcome == 'unknown':
            return ClaimUnknown(consumer, 'no answer', undo=self.before or {})
        return Claimed(consumer, self.before or {})

    @staticmethod
    def _exhausted(wanted):
        """The last provider of the candidate has no room."""
        return list(wanted['allocations'])[-1], 'VCPU'

    def claim_all(self, context, wanted, version, project_id, user_id):
        """Claim for all; whenever there is a script, each is to be claimed alone."""
        uuids = [one.consumer_uuid for one in wanted]
        self.tried_together.append(uuids)
        outcome = self.together
        if isinstance(outcome, dict):
            outcome = next(filter(None, map(outcome.get, uuids)), 'claimed')
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome == 'unreachable':
            return ClaimRefused(0, 'nobody is there')
        if outcome == 'refused' or self.script:
            return ClaimRefused(409, 'no room', self.together_exhausted)
        self.owner = (project_id, user_id)
        self.held.update((one.consumer_uuid, one.candidate) for one in wanted)
        if outcome == 'unknown':
            return [ClaimUnknown(uuid, 'no answer') for uuid in uuids]
        return [Claimed(uuid) for uuid in uuids]

    def answers(self):
        return True

    def holders(self, context, consumers, mine, among=None):
        """Say what is held, after the next of ``looks``: others act before it. Like
        the API, nothing is said of all consumers at no cost, nor of very many."""
        if among == ():
            return {}
        self.looked += 1
        consumers = consumers if among else consumers[:MOST_ASKED]
        if self.looks:
            outcome = self.looks.pop(0)(self)
            if isinstance(outcome, QueryFailed):
                return outcome
        found = {c: [*held['allocations']] for c, held in self.held.items()}
        return {c: found[c] for c in consumers if c in found}

    def usages(self, context, mine):
        """Say what is used, after the next of ``looks``: of what is held, by others."""
        self.looked += 1
        if self.looks:
            outcome = self.looks.pop(0)(self)
            if isinstance(outcome, QueryFailed):
                return outcome
        found = {uuid: Counter() for uuid in mine}
        for wanted in self.held.values():
            for uuid, part in wanted['allocations'].items():
                found.get(uuid, Counter()).update(part['resources'])
        return found

    def undo(self, context, claims, within_s=None, keeps_unknown=False):
        unknown = [each for each in claims if isinstance(each, ClaimUnknown)]
        if keeps_unknown and unknown and unknown[0].consumer_uuid in self.held:
            left = UndoLeft({each.consumer_uuid: STANDS for each in unknown})
            left.standing = unknown
            return left
        self.undone += [(claim.consumer_uuid, claim.undo) for claim in claims]
        gone = [c.consumer_uuid for c in claims if c.consumer_uuid not in self.unundone]
        for consumer in gone:
            self.held.pop(consumer, None)
        left = self.unundone & self.held.keys()
        return UndoLeft(dict.fromkeys(left, 'placement is away'))


def schedule_request(context, spec, uuids, candidates=None, alternates=False, **values):
    """A request as a driver gets it: all hosts are candidates, and nothing is claimed,
    unless it is given."""
    return ScheduleRequest(
        context,
        spec,
        uuids or (),
        names_instances=uuids is not None,
        return_alternates=alternates,
        candidates=ALL_HOSTS if candidates is None else candidates,
        **values,
    )


class DecisionsSeen(DecisionRecorder):
    """A recorder that gives each decision to a function."""

    def __init__(self, take):
        self._take = take

    def decided(self, decision, index=None):
        self._take(decision)


class FakeDriver(Driver):
    """Claims the first candidate for every instance; keeps the request."""

    def __init__(self, problem=None):
        super().__init__(None)
        self.request = None
        self._problem = problem

    def select_destinations(self, request):
        self.request = request
        for uuid in request.instance_uuids:
            if isinstance(request, ClaimedRequest):
                candidate = request.candidates.requests[0]
                request.claims.make(request.spec.for_instance(uuid), candidate)
        if self._problem:
            raise self._problem
        selection = Selection(service_host='h1', nodename='n1', limits=None)
        selections = [[selection] for _ in range(request.required)]
        return ScheduleResult(selections, request.spec.replaced(instance_uuid=LAST))


class Choosy(FakeDriver):
    """Takes only a host that is named; keeps the candidates of each attempt."""

    def __init__(self, wanted):
        super().__init__()
        self.attempts = []
        self._wanted = wanted

    def select_destinations(self, request):
        candidates = request.candidates
        self.attempts.append(candidates)
        offered = [next(iter(each['allocations'])) for each in candidates.requests]
        placed = super().select_destinations(request)
        if self._wanted not in offered:
            raise errors.NoValidHost('There are not enough hosts available.')
        return placed


class Cutting(FakePlacement):
    """Gives as many candidates as the query allows, which is two; or fails."""

    fails_without_limit = False

    def candidates(self, context, query):
        found = super().candidates(context, query)
        if 'limit=2' in query:
            return dataclasses.replace(found, requests=found.requests[:2])
        return QueryFailed(503, 'away') if self.fails_without_limit else found


class FakeNetwork:
    """Knows ports by id and segments by place; keeps what it is asked for.

    What is an exception is raised.
    """

    def __init__(self, ports=None, segments=None):
        self._ports = ports or {}
        self._segments = segments or {}
        self.asked = []

    def port(self, context, port_id):
        return self._told(self._ports, port_id)

    def segments(self, context, place):
        return self._told(self._segments, place)

    def _told(self, known, key):
        self.asked.append(key)
        if isinstance(known[key], Exception):
            raise known[key]
        return known[key]


class FakeNotifier:
    """Keeps what it is told; raises ``problem`` in the phase named."""

    def __init__(self, raises_at=None, problem=None):
        self._raises_at = raises_at
        self._problem = problem
        self.told = []

    def select_destinations(self, context, spec, phase):
        if phase == self._raises_at:
            raise self._problem
        self.told.append((phase, spec))

    def of_release(self, release):
        return self

    @property
    def phases(self):
        return [phase for phase, _ in self.told]


class FakeCells(dict):
    """Cells by uuid."""

    def enabled(self):
        return [cell for cell in self.values() if not cell.disabled]

    def broken(self):
        return set()


class FakeView:
    """Shows a table of hosts, of whatever cell is asked for.

    Cells whose uuids are ``silent`` did not answer.
    """

    def __init__(self, hosts, cells=None, nodes=()):
        self._hosts = hosts
        self._nodes = list(nodes)
        self.cells = FakeCells(cells or {})
        self.silent = set()
        self.cells_asked = []
        self.refreshed = 0
        self.members = {}
        self.aggregates = FakeAggregates()
        self.instances = FakeInstances()

    def refresh(self):
        self.refreshed += 1
        return math.inf

    def known(self):
        return self.refresh()

    def changed(self, node_uuids, seen, **how):
        return set()

    def unavailable_cells(self, cell_uuid=None, target=None, offered=None):
        return tuple(
            cell.name or cell.uuid
            for cell in self.cells.enabled()
            if cell_uuid in (None, cell.uuid) and cell.uuid in self.silent
        )

    def minimum_compute_version(self):
        return 74

    def group_members(self, group_uuid):
        return self.members.get(group_uuid, [])

    def current_aggregates(self):
        self.aggregates.looks += 1
        return self.aggregates.all()

    def hosts(self, candidates, cell_uuid, moved_uuid=None):
        self.cells_asked.append(cell_uuid)
        if candidates is None:
            return self._hosts
        wanted = [uuid in candidates for uuid in self._hosts.uuid.tolist()]
        found = self._hosts[np.array(wanted, bool)]
        column = factories.objects([[] for _ in range(len(found.snapshot))])
        for row, uuid in zip(found.rows.tolist(), found.uuid.tolist(), strict=True):
            column[row] = list(candidates[uuid])
        return found.with_columns(allocation_candidates=column)

    def node_uuids(self):
        return set(self._hosts.uuid.tolist())

    def nodes_named(self, host, node, cell_uuid=None):
        self.cells_asked.append(cell_uuid)
        return [
            found
            for found in self._nodes
            if host in (None, found[0]) and node in (None, found[1])
        ]


class FakeAggregates:
    """Keeps the aggregates that it is given; ``looks`` of prefilters are counted."""

    def __init__(self):
        self.known = {}
        self.looks = self.version = 0

    def all(self):
        return list(self.known.values())

    def update(self, aggregates):
        self.known.update((each.id, each) for each in aggregates)

    def delete(self, aggregate_id):
        self.known.pop(aggregate_id, None)


class FakeInstances:
    """Keeps what is reported to it, call by call."""

    def __init__(self):
        self.reported = []

    def update(self, host, instances):
        self.reported.append(('update', host, instances))

    def delete(self, host, uuid):
        self.reported.append(('delete', host, uuid))

    def sync(self, host, uuids):
        self.reported.append(('sync', host, list(uuids)))


class FakeJournal:
    """Keeps what becomes of every intent, by consumer, in order, and how long ago those
    that are to be undone were made."""

    def __init__(self):
        self.intents = []
        self.made_s_ago = []
        self.told = []

    def intend(self, intents):
        self.intents += intents
        return [FakeEntry(self, one.consumer_uuid) for one in intents]


class FakeEntry:
    """Tells its journal what it is told."""

    def __init__(self, journal, consumer):
        self._journal = journal
        self._consumer = consumer

    def settle(self):
        self._journal.told.append((self._consumer, 'settled'))

    def answering(self):
        self._journal.told.append((self._consumer, 'answering'))

    def leave(self):
        self._journal.told.append((self._consumer, 'left'))

    def undo_later(self, made_s_ago):
        self._journal.told.append((self._consumer, 'to be undone'))
        self._journal.made_s_ago.append(made_s_ago)


class FakeCaller:
    """Waits for an answer, unless it is gone; keeps whom to tell of the answer."""

    def __init__(self, gone=None, left_s=None, answer_left_s=math.inf):
        self._gone = gone
        self._left_s = left_s
        self._answer_left_s = answer_left_s
        self._done = []
        self.resting = contextlib.nullcontext

    def check(self):
        if self._gone:
            raise self._gone

    def patience_left_s(self):
        return self._left_s

    def answer_left_s(self):
        return self._answer_left_s

    def if_undeliverable(self, undo):
        self.undeliverable = undo

    def when_answered(self, done):
        self._done.append(done)

    def answered(self):
        for done in self._done:
            done()


class Part:
    """Writes down what is done with it; fails in the step named.

    As a life it has answered no request when it stops.
    """

    def __init__(self, told, name='scheduler', fails_at=None, problem=None):
        self._told = told
        self._name = name
        self._fails_at = fails_at
        self._problem = problem

    def __getattr__(self, step):
        def do(*given):
            self._told.append(f'{self._name}.{step}')
            if step == self._fails_at:
                raise self._problem
            return 0

        return do

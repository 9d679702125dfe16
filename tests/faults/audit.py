# SPDX-License-Identifier: Apache-2.0
"""One oracle for all fault tests: it judges a run by eight invariants.

The journal says what clients sent and what they got. The books are placement's own,
read past every proxy. Decisions and logs are evidence for the messages.

    audit.check('I1', 'I2', 'I4')

docs/reference/faults.md says what each invariant promises.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from typing import NamedTuple

from tests.faults.books import Books
from tests.faults.resources import Resources
from tests.live.servers.process import wait_until

SETTLE_S = 60
"""Within this time of a fault every claim is answered or gone (I2), and what was used
for that is let go of (I7)."""
SETTLING = ('I2', 'I7')
FEW = 5
"""For more consumers, all books are read at once."""

NOVA = 'nova.exception'
WIRE_CLASSES = {
    NOVA: {
        'AllocationDeleteFailed',
        'AllocationUpdateFailed',
        'ComputeHostMetricNotFound',
        'FlavorImageConflict',
        'Forbidden',
        'ImageCPUPinningForbidden',
        'ImageCPUThreadPolicyForbidden',
        'ImagePCINUMAPolicyForbidden',
        'Invalid',
        'InvalidCPUAllocationPolicy',
        'InvalidCPUThreadAllocationPolicy',
        'InvalidEmulatorThreadsPolicy',
        'InvalidMachineType',
        'InvalidMixedInstanceDedicatedMask',
        'InvalidPCINUMAAffinity',
        'InvalidRequest',
        'InvalidVideoMode',
        'MemoryPageSizeInvalid',
        'NoValidHost',
        'NovaException',
        'ObjectActionError',
        'PortNotFound',
        'RealtimeMaskNotFoundOrInvalid',
        'RequestGroupSuffixConflict',
        'StatelessFirmwareRequired',
        'Unauthorized',
    },
    'oslo_messaging.rpc.dispatcher': {'NoSuchMethod', 'UnsupportedVersion'},
    'oslo_versionedobjects.exception': {'UnsupportedObjectError'},
    'oslo_db.exception': {'DBError'},
    'builtins': {'ValueError'},
}
"""The failures that leave nova's scheduler: classes by module."""


class Failure(NamedTuple):
    """An error as the caller got it; a client library may hide the module."""

    name: str
    module: str | None = None
    text: str = ''
    kwargs: dict | None = None


class Answer(NamedTuple):
    """A final answer: the chosen node of each consumer, or a failure.

    ``held`` is what placement held for each consumer when the answer came.
    """

    at_s: float
    nodes: tuple[str, ...] = ()
    failure: Failure | None = None
    held: tuple[frozenset[str], ...] = ()


class Call:
    """A request of a client. ``kept``: nodes that its consumers held before.

    ``deliveries``: how often the broker got it. ``room``: a valid host was free all
    the time. ``gave_up_s``: when the client stopped waiting.
    """

    def __init__(self, consumers, sent_s, *, kept=(), deliveries=1, room=False):
        self.consumers = tuple(consumers)
        self.sent_s = sent_s
        self.kept = frozenset(kept)
        self.deliveries = deliveries
        self.room = room
        self.gave_up_s = None
        self.answers = []

    @property
    def nodes(self):
        """The node that each consumer was answered with."""
        return {
            consumer: node
            for answer in self.answers
            for consumer, node in zip(self.consumers, answer.nodes, strict=False)
        }

    @property
    def failure(self):
        """The failure of the last answer, if it was one."""
        return self.answers[-1].failure if self.answers else None

    def __str__(self):
        first, *others = self.consumers
        return f'request for {first}' + (f' and {len(others)} more' if others else '')


class Bounds(NamedTuple):
    """What is still bounded; growth is that of a watched process since watch()."""

    latency_s: float | None = None
    threads: int | None = None
    files: int | None = None
    memory_mb: float | None = None


class Audit:
    """Gathers what happened; check() fails with every violation that it finds."""

    def __init__(self, books, *, settle_s=SETTLE_S, clock=time.monotonic):
        self._books = books
        self.settle_s = settle_s
        self._clock = clock
        self._lock = threading.Lock()
        self._strangers = set()
        self._released = set()
        self._left = set()
        self._groups = []
        self._watched = {}
        self.bounds = Bounds()
        self.calls = []
        self.decisions = []
        self.logs = []

    @classmethod
    def of(cls, placement, **options):
        """Make an audit that reads a placement service directly."""
        return cls(Books(placement), **options)

    # -- the journal

    def sent(self, consumers, **what):
        """Note that a request is sent; see Call."""
        call = Call(consumers, self._clock(), **what)
        with self._lock:
            self.calls.append(call)
        return call

    def answered(self, call, selections):
        """Note an answer: lists of selections, objects or their primitives."""
        nodes = tuple(_node(each[0]) for each in selections)
        held = self._held(call.consumers)
        call.answers.append(Answer(self._clock(), nodes, None, held))

    def _held(self, consumers):
        if len(consumers) > FEW:
            found = self._books.holdings()
            return tuple(frozenset(found.get(one, ())) for one in consumers)
        return tuple(frozenset(self._books.held(one)) for one in consumers)

    def failed(self, call, failure):
        """Note that a request was answered with a Failure."""
        call.answers.append(Answer(self._clock(), failure=failure))

    def gave_up(self, call):
        """Note that the client of a request waits no longer."""
        call.gave_up_s = self._clock()

    # -- what the test says

    def stranger(self, *consumers):
        """Name consumers that hold what no scheduler claimed."""
        self._strangers.update(consumers)

    def released(self, *consumers):
        """Name consumers whose servers are deleted: they hold nothing any more."""
        self._released.update(consumers)

    def left_by(self, *calls):
        """Let claims of these calls stay: documented as not promised."""
        self._left.update(one for call in calls for one in call.consumers)

    def group(self, policy, consumers):
        """Name the members of a server group: 'affinity' or 'anti-affinity'."""
        self._groups.append((policy, tuple(consumers)))

    def watch(self, name, pid):
        """Remember what a process uses now."""
        self._watched[name] = (pid, Resources.of(pid))

    # -- the verdict

    def check(self, *names):
        """Raise AssertionError with all violations of these invariants."""
        for name in SETTLING:
            if name in names:
                self._settle(name)
        found = [f'{name}: {text}' for name in names for text in self.violations(name)]
        assert not found, '\n'.join([*found, *self._evidence()])

    def violations(self, name):
        """Return what violates an invariant now, a sentence each."""
        return list(_INVARIANTS[name](self))

    def left_behind(self):
        """Return the consumers that still hold what nobody was told of."""
        found = self._books.holdings()
        return sorted(self._left & found.keys() - self._answered().keys())

    def _settle(self, name):
        def holds():
            return not self.violations(name)

        with contextlib.suppress(AssertionError):
            wait_until(holds, self.settle_s, name, every_s=0.2)

    def _evidence(self):
        """Yield the last decisions, and the last lines of logs."""
        for decision in self.decisions[-3:]:
            yield 'decision: ' + ', '.join(str(step) for step in decision.steps)
        for log in self.logs:
            yield 'log: ' + '\n'.join(log().splitlines()[-15:])

    def _answered(self):
        """The nodes that each consumer was answered with, over all calls."""
        found = defaultdict(set)
        for call in self.calls:
            for consumer, node in call.nodes.items():
                found[consumer].add(node)
        return found

    # -- the invariants

    def _no_over_commit(self):
        for each in self._books.capacities():
            if each.used > each.limit:
                yield (
                    f'{each.provider}: {each.used:g} of {each.limit:g} '
                    f'{each.resource_class} are used'
                )

    def _no_leak(self):
        answered, known, kept = self._answered(), set(), {}
        for call in self.calls:
            known.update(call.consumers)
            kept.update(dict.fromkeys(call.consumers, call.kept))
        for consumer, nodes in self._books.holdings().items():
            if consumer in self._strangers or consumer in self._left:
                continue
            if consumer not in known:
                yield f'{consumer} holds {sorted(nodes)}, and no request names it'
            elif consumer in self._released:
                yield f'{consumer} holds {sorted(nodes)}, and was released'
            elif lost := set(nodes) - answered.get(consumer, set()) - kept[consumer]:
                yield f'{consumer} holds {sorted(lost)}, which no answer names'

    def _one_answer(self):
        hosts = defaultdict(set)
        for call in self.calls:
            if len(call.answers) > call.deliveries:
                yield f'{call}: {len(call.answers)} answers to {call.deliveries} sent'
            for answer in call.answers:
                if answer.nodes and not call.kept:
                    for one, node in zip(call.consumers, answer.nodes, strict=True):
                        hosts[one].add(node)
        for consumer, nodes in hosts.items():
            if len(nodes) > 1:
                yield f'{consumer} was answered with {sorted(nodes)}'

    def _answer_is_claim(self):
        for call in self.calls:
            for answer in call.answers:
                if answer.nodes and len(answer.nodes) != len(call.consumers):
                    yield f'{call}: {len(answer.nodes)} hosts in its answer'
                for one, node, held in zip(
                    call.consumers, answer.nodes, answer.held, strict=False
                ):
                    if held - call.kept != {node} - call.kept or node not in held:
                        yield f'{one} was answered with {node} and held {sorted(held)}'

    def _policy_holds(self):
        holdings = self._books.holdings()
        for policy, members in self._groups:
            by_node = defaultdict(list)
            for one in members:
                for node in holdings.get(one, ()):
                    by_node[node].append(one)
            if policy == 'affinity' and len(by_node) > 1:
                yield f'an affinity group is on {sorted(by_node)}'
            if policy == 'anti-affinity':
                for node, ones in by_node.items():
                    if len(ones) > 1:
                        yield f'{sorted(ones)} of one anti-affinity group are on {node}'

    def _no_false_no_valid_host(self):
        for call in self.calls:
            if call.room and call.failure and call.failure.name == 'NoValidHost':
                yield f'{call}: NoValidHost while a host was free: {call.failure.text}'

    def _bounded(self):
        for call in self.calls:
            if not call.answers and call.gave_up_s is None:
                yield f'{call}: no answer after {self._clock() - call.sent_s:.1f} s'
            for answer in call.answers:
                took_s = answer.at_s - call.sent_s
                if self.bounds.latency_s and took_s > self.bounds.latency_s:
                    yield f'{call}: {took_s:.1f} s of at most {self.bounds.latency_s} s'
        for name, (pid, before) in self._watched.items():
            yield from _grown(name, before, Resources.of(pid), self.bounds)

    def _same_wire(self):
        for call in self.calls:
            for answer in call.answers:
                if answer.failure and (wrong := _wrong_on_the_wire(answer.failure)):
                    yield f'{call}: {wrong}'


_INVARIANTS = {
    'I1': Audit._no_over_commit,
    'I2': Audit._no_leak,
    'I3': Audit._one_answer,
    'I4': Audit._answer_is_claim,
    'I5': Audit._policy_holds,
    'I6': Audit._no_false_no_valid_host,
    'I7': Audit._bounded,
    'I8': Audit._same_wire,
}


def _node(selection):
    """The uuid of the node of a Selection, or of its primitive."""
    if isinstance(selection, dict):
        return selection['nova_object.data']['compute_node_uuid']
    return selection.compute_node_uuid


def _grown(name, before, now, bounds):
    """Yield what a process uses more than its bounds allow."""
    for what in ('threads', 'files', 'memory_mb'):
        limit = getattr(bounds, what)
        grown = getattr(now, what) - getattr(before, what)
        if limit is not None and grown > limit:
            yield (
                f'{name}: {what} grew from {getattr(before, what):g} by {grown:g}, '
                f'at most {limit:g} are allowed'
            )


def _wrong_on_the_wire(failure):
    """Say what is not nova's about a failure; None if all is."""
    modules = [failure.module] if failure.module else list(WIRE_CLASSES)
    if not any(failure.name in WIRE_CLASSES.get(module, ()) for module in modules):
        return f'{failure.module or "?"}.{failure.name} is none of nova: {failure.text}'
    if failure.module == NOVA and 'code' not in (failure.kwargs or {}):
        return f'{failure.name} has no code: {failure.kwargs}'
    return None

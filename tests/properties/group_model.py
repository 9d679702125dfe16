# SPDX-License-Identifier: Apache-2.0
"""An executable model of requests for members of one server group.

Any number of schedulers, and placement, take their steps in any order. A request claims
a host, looks where the other members are, and is answered, looks again, or undoes its
claim and decides again. A scheduler may be killed between any two steps; recovery
undoes what it wrote into its journal. A request may be delivered twice. The rules of a
conflict are those of the product.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from novasched.scheduler.group_policy import AFFINITY, HardPolicy


class Guard(enum.Enum):
    """What keeps the invariants; each may be removed."""

    LOOKS_AFTER_CLAIM = 'the other members are looked for after the claim, not before'
    ALL_YIELD = 'nobody is answered that sees a conflict, the senior neither'
    READS_MEMBERS = 'the members are those of now, not those when the request came'
    UNDOES_ITS_OWN = 'a claim is undone only if it stands as it was made'
    KEEPS_A_JOURNAL = 'the claim of a scheduler that is killed is undone'
    CLAIMS_ONCE = 'a server that holds resources gets no more'
    SENIOR_STAYS = 'the senior looks again, while the others undo their claims'
    LOOKS_BEFORE_NO = 'where others left no host, it is looked whether they have gone'


ALL = frozenset(Guard)


class At(enum.Enum):
    """Where a request is."""

    DECIDE = enum.auto()
    CLAIM = enum.auto()
    LOOK = enum.auto()
    ANSWER = enum.auto()
    UNDO = enum.auto()
    SETTLE = enum.auto()
    LOOK_AGAIN = enum.auto()
    ANSWERED = enum.auto()
    REFUSED = enum.auto()
    FAILED = enum.auto()
    KILLED = enum.auto()


ENDED = {At.ANSWERED, At.REFUSED, At.FAILED, At.KILLED}


class Claim(NamedTuple):
    """A host that a member holds; ``by`` is the number of the request and of its try,
    which stand for the generation, the amounts and the time of a claim."""

    host: int
    by: tuple[int, int]


class Request(NamedTuple):
    """A request for one member. ``seen`` are the others that it counts on hosts, as its
    last look has shown; ``watched`` those that its senior waits for, as long as they
    stay where they are; ``journal`` is its claim, open."""

    member: str
    at: At = At.DECIDE
    host: int = -1
    seen: tuple[tuple[str, int], ...] = ()
    places: int = 0
    looks: int = 0
    full: frozenset[int] = frozenset()
    watched: tuple[tuple[str, tuple[int, ...]], ...] = ()
    tries: int = 0
    journal: Claim | None = None


class State(NamedTuple):
    """The requests, what each member holds in placement, and who may yet be killed."""

    requests: tuple[Request, ...]
    held: tuple[tuple[str, tuple[Claim, ...]], ...]
    answers: tuple[tuple[str, int], ...]
    kills_left: int


class Broken(AssertionError):
    """An invariant does not hold in a state that can be reached."""


@dataclass(frozen=True)
class Model:
    """A cloud of ``capacities`` hosts, the best first, and the members of one group.

    A member that is named twice is delivered twice. ``sees_all``: a look shows all
    members, as that at a database does, not only those on the host of the request.
    ``prefers`` are the hosts that are the best for the requests, as their views differ.
    ``claims_together``: claims may go as one POST, whose worker may be killed then.
    The tries of a request are counted up to two, as the third is like the second: so
    the states are finite, though nothing bounds how often a request decides again.
    """

    policy: HardPolicy
    members: tuple[str, ...]
    capacities: tuple[int, ...]
    guards: frozenset[Guard] = ALL
    kills: int = 0
    relooks: int = 2
    sees_all: bool = True
    prefers: tuple[int, ...] = (0,)
    claims_together: bool = False

    # -- states

    def first(self) -> State:
        requests = tuple(
            Request(each, places=self.prefers[number % len(self.prefers)])
            for number, each in enumerate(self.members)
        )
        held = tuple((each, ()) for each in sorted({*self.members}))
        return State(requests, held, (), self.kills)

    def steps(self, state: State) -> Iterator[tuple[int, State]]:
        """Yield the states that may follow, with the number of the request."""
        for number, request in enumerate(state.requests):
            if request.at not in ENDED:
                yield number, self.step(state, number)
                if state.kills_left:
                    yield number, self._killed(state, [number])
            elif request.at is At.KILLED and request.journal is not None:
                yield number, self._recovered(state, number)
        claiming = [n for n, r in enumerate(state.requests) if r.at is At.CLAIM]
        if self.claims_together and len(claiming) > 1:
            for number in claiming:
                state = self.step(state, number)
            yield claiming[0], state
            if state.kills_left:
                yield claiming[0], self._killed(state, claiming)

    def _killed(self, state: State, numbers: Iterable[int]) -> State:
        """Kill the worker of requests."""
        for number in numbers:
            request = state.requests[number]
            if request.at not in ENDED:
                dead = Request(request.member, At.KILLED, journal=request.journal)
                state = self._with(state, number, dead)
        return state._replace(kills_left=state.kills_left - 1)

    def step(self, state: State, number: int) -> State:
        """Return what follows if a request takes its next step."""
        request = state.requests[number]
        if request.at is At.KILLED:
            return self._recovered(state, number)
        step = {
            At.DECIDE: self._decide,
            At.CLAIM: self._claim,
            At.LOOK: self._look,
            At.ANSWER: self._answer,
            At.UNDO: self._undo,
            At.SETTLE: self._settle,
            At.LOOK_AGAIN: self._look_again,
        }[request.at]
        return step(state, number, request)

    def _decide(self, state: State, number: int, request: Request) -> State:
        fit = [
            host
            for host in range(len(self.capacities))
            if host not in request.full and self._passes(host, request.seen)
        ]
        if fit:
            host = fit[request.places % len(fit)]
            if Guard.LOOKS_AFTER_CLAIM not in self.guards:
                seen = self._others(state, request)
                if self.policy.conflict({request.member: host}, seen):
                    return self._with(state, number, request._replace(at=At.LOOK_AGAIN))
            return self._with(state, number, request._replace(at=At.CLAIM, host=host))
        again = request.seen and Guard.LOOKS_BEFORE_NO in self.guards
        at = At.LOOK_AGAIN if again else At.REFUSED
        return self._with(state, number, request._replace(at=at))

    def _passes(self, host: int, seen: tuple[tuple[str, int], ...]) -> bool:
        """The filters: members that were seen count as if their rows showed them."""
        if self.policy.name == AFFINITY:
            return not seen or host in {where for _, where in seen}
        return sum(where == host for _, where in seen) < self.policy.most

    def _claim(self, state: State, number: int, request: Request) -> State:
        held = dict(state.held)
        if held[request.member] and Guard.CLAIMS_ONCE in self.guards:
            return self._with(state, number, Request(request.member, At.FAILED))
        if self._used(state, request.host) >= self.capacities[request.host]:
            full = request.full | {request.host}
            request = request._replace(at=At.DECIDE, full=full)
            return self._with(state, number, request)
        tries = min(request.tries + 1, 2) if self.kills else 1
        claim = Claim(request.host, (number, tries))
        held[request.member] = (*held[request.member], claim)
        at = At.LOOK if Guard.LOOKS_AFTER_CLAIM in self.guards else At.ANSWER
        journal = claim if Guard.KEEPS_A_JOURNAL in self.guards else None
        request = request._replace(
            at=at,
            tries=tries,
            journal=journal if self.kills else None,
            places=0,
            full=frozenset(),
        )
        return self._with(state, number, request, held)

    def _look(self, state: State, number: int, request: Request) -> State:
        others = self._others(state, request)
        conflict = self.policy.conflict({request.member: request.host}, others)
        if conflict is None:
            request = request._replace(at=At.ANSWER, seen=(), looks=0, watched=())
            return self._with(state, number, request)
        if conflict.is_senior and Guard.ALL_YIELD not in self.guards:
            return self._with(state, number, request._replace(at=At.ANSWER))
        stays = conflict.is_senior and Guard.SENIOR_STAYS in self.guards
        shown = tuple(sorted(conflict.others.items()))
        looks = request.looks if request.watched == shown else 0
        if stays and looks < self.relooks:
            request = request._replace(looks=looks + 1, watched=shown)
            return self._with(state, number, request)
        known = dict[str, tuple[int, ...]](conflict.others)
        if self.policy.name != AFFINITY:
            known = _by_member(request.seen) | (others if self.sees_all else known)
        seen = tuple(sorted((m, host) for m, hosts in known.items() for host in hosts))
        request = request._replace(
            at=At.UNDO, seen=seen, places=conflict.places, looks=0, watched=()
        )
        return self._with(state, number, request)

    def _answer(self, state: State, number: int, request: Request) -> State:
        answers = tuple(sorted({*state.answers, (request.member, request.host)}))
        ended = Request(request.member, At.ANSWERED)
        return self._with(state, number, ended)._replace(answers=answers)

    def _undo(self, state: State, number: int, request: Request) -> State:
        held = self._without(state, request.member, request.host, number, request.tries)
        at = At.SETTLE if self.kills else self._after_undo
        request = request._replace(at=at, host=-1)
        return self._with(state, number, request, held)

    @property
    def _after_undo(self) -> At:
        """Where no look shows all, there is nothing more to see."""
        is_affinity = self.policy.name == AFFINITY
        return At.DECIDE if is_affinity or not self.sees_all else At.LOOK_AGAIN

    def _settle(self, state: State, number: int, request: Request) -> State:
        request = request._replace(at=self._after_undo, journal=None)
        return self._with(state, number, request)

    def _look_again(self, state: State, number: int, request: Request) -> State:
        """See whether the others are where they were."""
        others = self._others(state, request)
        if not self.sees_all or self.policy.name == AFFINITY:
            others = {m: others[m] for m in dict(request.seen) if m in others}
        seen = tuple(sorted((m, host) for m, hosts in others.items() for host in hosts))
        request = request._replace(at=At.DECIDE, seen=seen, full=frozenset())
        return self._with(state, number, request)

    def _recovered(self, state: State, number: int) -> State:
        request = state.requests[number]
        claim = request.journal
        assert claim is not None
        held = self._without(state, request.member, claim.host, *claim.by)
        return self._with(state, number, request._replace(journal=None), held)

    def _without(
        self, state: State, member: str, host: int, number: int, tries: int
    ) -> dict[str, tuple[Claim, ...]]:
        """Undo one claim."""
        held = dict(state.held)
        if Guard.UNDOES_ITS_OWN in self.guards:
            own = Claim(host, (number, tries))
            held[member] = tuple(each for each in held[member] if each != own)
        else:
            held[member] = ()
        return held

    def _others(self, state: State, request: Request) -> dict[str, tuple[int, ...]]:
        found = {
            member: tuple(each.host for each in claims)
            for member, claims in state.held
            if claims and member != request.member
        }
        if Guard.READS_MEMBERS in self.guards:
            return found
        known = self.members[: self.members.index(request.member)]
        return {each: found[each] for each in found if each in known}

    @staticmethod
    def _used(state: State, host: int) -> int:
        return sum(each.host == host for _, claims in state.held for each in claims)

    @staticmethod
    def _with(
        state: State,
        number: int,
        request: Request,
        held: Mapping[str, tuple[Claim, ...]] | None = None,
    ) -> State:
        requests = list(state.requests)
        requests[number] = request
        kept = state.held if held is None else tuple(sorted(held.items()))
        return state._replace(requests=tuple(requests), held=kept)

    # -- invariants

    def check(self, state: State) -> None:
        """Raise Broken where an invariant does not hold."""
        for member, host in state.answers:
            others = {m: (h,) for m, h in state.answers if m != member}
            if self.policy.conflict({member: host}, others):
                raise Broken(f'the policy, among the answered {state.answers}')
            if host not in {each.host for each in dict(state.held)[member]}:
                raise Broken(f'{member} was answered, and holds nothing')
        for host, capacity in enumerate(self.capacities):
            if self._used(state, host) > capacity:
                raise Broken(f'host {host} is over capacity')
        for member, claims in state.held:
            if len(claims) > 1:
                raise Broken(f'{member} holds two hosts')

    def check_end(self, state: State) -> None:
        """Raise Broken unless each claim ended, and no request was refused falsely."""
        for member, claims in state.held:
            for claim in claims:
                if (member, claim.host) not in state.answers:
                    raise Broken(f'a claim for {member} is neither answered nor undone')
        if state.kills_left < self.kills:
            return  # what was killed may have stood in the way for a while
        answered = {member for member, _ in state.answers}
        for request in state.requests:
            is_refused = request.at not in (At.ANSWERED, At.FAILED)
            if is_refused and request.member not in answered and self._fits(state):
                raise Broken(f'{request.member} was refused, and there is a host')

    def _fits(self, state: State) -> bool:
        """Whether there is a host for one more member."""
        return any(
            self._used(state, host) < capacity and self._passes(host, state.answers)
            for host, capacity in enumerate(self.capacities)
        )

    # -- exploration

    def explore(self, most: int = 1_000_000) -> set[State]:
        """Return all states that can be reached; raise Broken where one is wrong."""
        first = self.first()
        reached, left = {first}, deque([first])
        while left:
            state = left.popleft()
            self.check(state)
            for _, following in self.steps(state):
                if following not in reached:
                    reached.add(following)
                    left.append(following)
            if len(reached) > most:
                raise AssertionError(f'more than {most} states')
        return reached

    def finish_all(self, states: Iterable[State]) -> None:
        """Let all take their steps in turn from each state; raise Broken where one is
        wrong, none comes to an end, or a request is refused that need not be.

        Where nothing changes any more but what requests see, those are refused: in the
        product by their bound.
        """
        ended = set[State]()
        for start in states:
            state, path = start, dict[State, None]()
            while state not in ended and state not in path:
                path[state] = None
                state = self._round(state)
                self.check(state)
            if state in path:
                self._check_cycle(list(path)[list(path).index(state) :])
            ended.update(path)

    def _round(self, state: State) -> State:
        for number, request in enumerate(state.requests):
            is_open = request.at is At.KILLED and request.journal is not None
            if request.at not in ENDED or is_open:
                state = self.step(state, number)
        return state

    def _check_cycle(self, states: list[State]) -> None:
        """Check the states in which all ends: claims come and go in none of them."""
        if len({each.held for each in states}) > 1:
            raise Broken(f'they hinder each other for ever: {states[0].requests}')
        for each in states:
            self.check_end(each)


def _by_member(seen: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for member, host in seen:
        found[member] = (*found.get(member, ()), host)
    return found

# SPDX-License-Identifier: Apache-2.0
"""Fewest hosts with which a policy refuses hardly any server of a trace."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from novasched import errors
from novasched.policy_lab import trace
from novasched.policy_lab.cloud import plain_cloud
from novasched.policy_lab.policy import Policy
from novasched.policy_lab.results import FleetGroup, NeededHosts
from novasched.policy_lab.simulation import Simulation, Workload

REFUSED_OF = 10_000
"""At most one server of so many is refused."""
PRECISION = 0.005
FIRST_GUESS, LEAST_STEP = 1.06, 0.01
"""Hosts over the bound that are tried first, and by how much more at least if they are
too few; twice as much each time."""
MOST_OVER = 8
"""At most so many times the bound, or the hosts of the trace if more, are tried."""


class TriedHosts(NamedTuple):
    """Whether a number of hosts holds, and the number that may be the fewest."""

    holds: bool
    hint: int


def fewest(bound: int, most: int, trial: Callable[[int], TriedHosts]) -> int:
    """Return the least number that holds, to PRECISION; less than ``bound`` is not
    tried. More hosts are taken to hold, too, where fewer do.

    Raises errors.OptionError if ``most`` hosts do not hold.
    """
    precision = max(1, round(PRECISION * bound))
    too_few, guess = bound - 1, max(bound, round(bound * FIRST_GUESS))
    least = LEAST_STEP
    while not (tried := trial(guess)).holds:
        if guess >= most:
            raise errors.OptionError(
                '--policy',
                f'{guess} hosts are too few for it, {bound} are the bound',
                'See which servers are refused: lab run and lab show --refused',
            )
        too_few = guess
        guess = min(most, max(tried.hint, math.ceil(guess * (1 + least))))
        least *= 2
    # after an estimate the number is near; else anywhere down to the bound
    enough, step, hint = guess, precision if too_few >= bound else guess, tried.hint
    while enough - too_few > precision:
        guess = max((too_few + enough) // 2, enough - step)
        if too_few < hint < enough:
            guess, step = hint, precision
        tried = trial(guess)
        if tried.holds:
            enough, step, hint = guess, 2 * step, tried.hint
        else:
            too_few, hint = guess, enough
    return enough


def need(workload: Workload, policy: Policy) -> NeededHosts:
    """Find the fewest hosts, mixed as in the trace. All is decided directly.

    A trial ends as soon as too many servers were refused. How near the load is to its
    peak then says how many more hosts to try; hosts that were never used, how many
    fewer. Raises errors.OptionError if no number of hosts holds.
    """
    began_s = time.process_time()
    mix, trials = workload.trace.hosts, dict[str, int]()
    offered = trace.offered(workload.trace.flavors, workload.batches)
    bounds = [(b.at_s, trace.bound(mix, load)) for b, load in offered if b.at_s >= 0]
    bound = max([1, *(least for _, least in bounds)])
    asked = sum(len(b.lifetimes_s) for b in workload.batches if b.at_s >= 0)
    budget = asked // REFUSED_OF
    _check_fit(workload, policy, budget)

    def trial(count: int) -> TriedHosts:
        simulation = tried_with(workload, policy, trace.scaled(mix, count), budget)
        trials[str(count)] = refused = sum(e.vms for e in simulation.refusals)
        if refused <= budget:
            return TriedHosts(True, count - simulation.least_empty)
        until_s = simulation.refusals[-1].at_s
        until = max([1, *(least for at_s, least in bounds if at_s <= until_s)])
        return TriedHosts(False, math.ceil(count * bound / until))

    whole = sum(group.count for group in mix)
    hosts = fewest(bound, MOST_OVER * max(bound, whole), trial)
    return NeededHosts(
        policy=policy.name,
        part=workload.part,
        hosts=hosts,
        bound=bound,
        refused_vms=trials[str(hosts)],
        trials=trials,
        took_s=round(time.process_time() - began_s, 2),
    )


def _check_fit(workload: Workload, policy: Policy, budget: int) -> None:
    """Raise errors.OptionError if a policy refuses more servers than a budget on empty
    hosts."""
    asked: Counter[int] = Counter()
    for batch in workload.batches:
        if batch.at_s >= 0:
            asked[batch.flavor] += len(batch.lifetimes_s)
    cloud = plain_cloud([replace(group, count=1) for group in workload.trace.hosts])
    placer = workload.placer(cloud, policy, random.Random(0), is_direct=True)
    unfit = {}
    for number, request in enumerate(workload.requests):
        placed = placer.place(request, 1)
        if not placed:
            unfit[workload.trace.flavors[number].name] = asked[number]
        for each in placed:
            cloud.remove(each)
    if sum(unfit.values()) > budget:
        names = ', '.join(name for name, count in unfit.items() if count)
        raise errors.OptionError(
            '--hosts',
            f'policy {policy.name} has no host for {names}, even if all are empty',
            'Give larger hosts, or another policy',
        )


def tried_with(
    workload: Workload, policy: Policy, hosts: Sequence[FleetGroup], budget: int
) -> Simulation:
    """Return the simulation of so many hosts, up to the first refusal over a budget."""
    other = replace(workload, cloud=plain_cloud(hosts))
    simulation = Simulation(other, policy, is_direct=True, most_refused=budget)
    simulation.run()
    return simulation

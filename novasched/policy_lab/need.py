# SPDX-License-Identifier: Apache-2.0
"""Fewest hosts with which a policy refuses hardly any server of a trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from novasched.policy_lab import trace
from novasched.policy_lab.cloud import plain_cloud
from novasched.policy_lab.policy import Policy
from novasched.policy_lab.results import FleetGroup, NeededHosts
from novasched.policy_lab.simulation import Simulation, Workload

REFUSED_OF = 10_000
"""At most one server of so many is refused."""
PRECISION = 0.005
FIRST_GUESS, STEP = 1.06, 1.05
"""Hosts over the bound that are tried first, and by how much more if they are too
few."""


def fewest(bound: int, holds: Callable[[int], bool]) -> int:
    """Return the least number that holds, to PRECISION; less than ``bound`` is not
    tried. More hosts are taken to hold, too, where fewer do."""
    too_few, enough = bound - 1, max(bound, round(bound * FIRST_GUESS))
    while not holds(enough):
        too_few, enough = enough, max(enough + 1, round(enough * STEP))
    while enough - too_few > max(1, round(PRECISION * bound)):
        middle = (too_few + enough) // 2
        if holds(middle):
            enough = middle
        else:
            too_few = middle
    return enough


def need(workload: Workload, policy: Policy) -> NeededHosts:
    """Find the fewest hosts, mixed as in the trace. All is decided directly, and
    a trial ends as soon as too many servers were refused."""
    began_s = time.process_time()
    asked = sum(len(b.lifetimes_s) for b in workload.batches if b.at_s >= 0)
    budget = asked // REFUSED_OF
    trials: dict[str, int] = {}

    def holds(count: int) -> bool:
        hosts = trace.scaled(workload.trace.hosts, count)
        trials[str(count)] = refused_with(workload, policy, hosts, budget)
        return trials[str(count)] <= budget

    load = trace.peak(workload.trace.flavors, workload.batches)
    bound = max(1, trace.bound(workload.trace.hosts, load))
    hosts = fewest(bound, holds)
    return NeededHosts(
        policy=policy.name,
        part=workload.part,
        hosts=hosts,
        bound=bound,
        refused_vms=trials[str(hosts)],
        trials=trials,
        took_s=round(time.process_time() - began_s, 2),
    )


def refused_with(
    workload: Workload, policy: Policy, hosts: Sequence[FleetGroup], budget: int
) -> int:
    """Return how many servers are refused by so many hosts; more than a budget are not
    counted to the end."""
    other = Workload(
        workload.trace, workload.part, workload.batches, plain_cloud(hosts)
    )
    simulation = Simulation(other, policy, is_direct=True, most_refused=budget)
    simulation.run()
    return sum(each.vms for each in simulation.refusals)

# SPDX-License-Identifier: Apache-2.0
"""Runs of the policy lab, as they are read from a file."""

from novasched.policy_lab import intervals
from novasched.policy_lab.results import (
    FIGURES,
    SERIES,
    FlavorCounts,
    FleetGroup,
    NeededHosts,
    PartResult,
    PolicyText,
    RunPlan,
    RunResult,
    Series,
)

NOW, PACK = PolicyText('now', ''), PolicyText('pack', 'cpu:-1,ram:-1')


def part_result(policy, part, refused=0, empty=0.0):
    """Return the result of a part in which so many of 100 VMs were refused."""
    figures = dict.fromkeys(FIGURES) | {
        'refused_vms': refused,
        'refused_percent': float(refused),
        'refused_vcpus_percent': float(refused),
        'filled_vcpus_percent': 80.0 + part,
        'stranded_vcpus_percent': 5.0,
        'empty_percent': empty,
    }
    small = FlavorCounts('s', 1, 2048, 0.9, 90, 0, {}, 40.0, 20)
    large = FlavorCounts('l', 8, 57344, 0.1, 10, refused, {'RAM': refused}, 4.0, 1)
    series = Series(
        [0.0, 1800.0, 3600.0],
        {name: [0.0, empty, 2 * empty] for name in SERIES},
        {'s': [40, 30, 20], 'l': [4, 2, 1]},
    )
    return PartResult(
        policy, part, 4, 100, 170, 3600.0, figures, [small, large], series, 1, 0.5
    )


def run_result(parts=(1, 2), refused=(4, 0), needed=(), policies=(NOW, PACK)):
    """Return a run of two policies, by so many refused VMs of each."""
    empty = (0.0, 10.0)
    found = [
        part_result(policy.name, part, refused[at], empty[at] + part)
        for at, policy in enumerate(policies)
        for part in parts
    ]
    return RunResult(
        plan=RunPlan('history', 'abc', list(policies), list(parts), 3600.0, 1),
        title='a small trace',
        hosts=[FleetGroup(3, 8, 32768), FleetGroup(1, 16, 131072)],
        offered_vcpus_percent=90.0,
        offered_ram_percent=95.0,
        parts=found,
        rows=intervals.rows(found),
        overloaded=intervals.overloaded(found),
        needed=[
            NeededHosts(policy.name, 1, hosts, 10, 0, {}, 1.0)
            for policy, hosts in zip(policies, needed, strict=False)
        ],
    )

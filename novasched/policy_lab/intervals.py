# SPDX-License-Identifier: Apache-2.0
"""Means over parts, and differences of policies paired by part."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from novasched.policy_lab.results import (
    FIGURES,
    FigureDifference,
    FigureRow,
    PartResult,
)

QUANTILES = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % quantiles of Student's t for 1, 2, 3 ... degrees of freedom."""
NORMAL = 1.960
SAME_LOAD_POINTS = 1.0
"""Policies whose refusals differ by more do not hold the same load."""


def difference(pairs: Sequence[tuple[float, float]]) -> FigureDifference:
    """Return by how much the second of each pair exceeds the first, with a 95 %
    interval; one pair has none."""
    differences = [after - before for before, after in pairs]
    mean, count = statistics.fmean(differences), len(differences)
    if count < 2:
        return FigureDifference(mean, None)
    freedom = count - 1
    quantile = QUANTILES[freedom - 1] if freedom <= len(QUANTILES) else NORMAL
    return FigureDifference(
        mean, quantile * statistics.stdev(differences) / math.sqrt(count)
    )


def rows(parts: Sequence[PartResult]) -> list[FigureRow]:
    """Return each figure of all policies. Policies have results of the same parts."""
    policies = list(dict.fromkeys(each.policy for each in parts))
    return [_row(name, policies, parts) for name in FIGURES]


def _row(name: str, policies: Sequence[str], parts: Sequence[PartResult]) -> FigureRow:
    values: Mapping[str, dict[int, float]] = {policy: {} for policy in policies}
    for each in parts:
        value = each.figures.get(name)
        if value is not None:
            values[each.policy][each.part] = value
    whole = len({each.part for each in parts})
    means = {
        policy: statistics.fmean(of.values()) if len(of) == whole else None
        for policy, of in values.items()
    }
    first, *others = policies
    differences = {
        policy: difference([(values[first][p], values[policy][p]) for p in both])
        for policy in others
        if (both := sorted(values[first].keys() & values[policy].keys()))
    }
    return FigureRow(name, means, differences)


def overloaded(parts: Sequence[PartResult]) -> list[str]:
    """Return the policies that refuse otherwise than the first by more than a point of
    the VMs or vCPUs asked for."""
    policies = list(dict.fromkeys(each.policy for each in parts))
    refused = {
        policy: [
            statistics.fmean(
                float(each.figures[name] or 0.0)
                for each in parts
                if each.policy == policy
            )
            for name in ('refused_percent', 'refused_vcpus_percent')
        ]
        for policy in policies
    }
    first = refused[policies[0]]
    return [
        policy
        for policy in policies[1:]
        if any(
            abs(now - then) > SAME_LOAD_POINTS
            for now, then in zip(refused[policy], first, strict=True)
        )
    ]

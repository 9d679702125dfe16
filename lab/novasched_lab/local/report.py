# SPDX-License-Identifier: Apache-2.0
"""From a decision and its reply to the report that is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.scheduler import trace
from novasched_lab.local.render import Claim, Rejection, Report, Score, Step, Weighed


def report(
    request: RequestSpec,
    decision: trace.Decision | None,
    selections: Sequence[Selection],
    allocations: Mapping[str, Mapping[str, int]],
    seconds: float,
    failure: str | None = None,
) -> Report:
    """Gather what happened to a request for one instance.

    ``decision`` is None if the request ended before one was made; the first of
    ``selections`` is the host, the others are alternates. ``allocations`` are
    those of the instance, by name of the provider.
    """
    hosts = [selection.service_host for selection in selections]
    claim = Claim(request.instance_uuid, allocations) if allocations else None
    return Report(
        request=_lines(request),
        steps=_steps(decision) if decision else [],
        weights=_weights(decision) if decision else [],
        selected=hosts[0] if hosts else None,
        claim=claim,
        alternates=hosts[1:],
        seconds=seconds,
        failure=failure,
    )


def _lines(request: RequestSpec) -> dict[str, str]:
    specs = sorted(request.extra_specs.items())
    return {
        'instance': request.instance_uuid,
        'flavor': f'{request.vcpus} vCPU, {request.memory_mb} MiB memory, '
        f'{request.root_gb} GiB disk',
        'zone': request.availability_zone or 'any',
        'extra specs': ', '.join(f'{key}={value}' for key, value in specs) or 'none',
    }


def _steps(decision: trace.Decision) -> list[Step]:
    return [
        Step(
            step.name,
            len(step.before),
            len(step.after),
            tuple(
                Rejection(host.host, str(reason))
                for host, reason in step.reasons(decision.request)
            ),
        )
        for step in decision.steps
    ]


def _weights(decision: trace.Decision) -> list[Weighed]:
    """Return the scores of the ranked hosts, in that order."""
    weighed = decision.weighed
    places = {row: place for place, row in enumerate(weighed.hosts.rows.tolist())}
    order = [places[row] for row in decision.ranked.rows.tolist()]
    names = weighed.hosts.host.tolist()
    return [
        Weighed(
            names[place],
            tuple(_score(weighing, place) for weighing in weighed.weighings),
            float(weighed.totals[place]),
        )
        for place in order
    ]


def _score(weighing: trace.Weighing, place: int) -> Score:
    normalised = float(weighing.normalized[place])
    multiplier = float(weighing.multipliers[place])
    return Score(
        weighing.name,
        float(weighing.raw[place]),
        normalised,
        multiplier,
        multiplier * normalised,
    )

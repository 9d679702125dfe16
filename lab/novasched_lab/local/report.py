# SPDX-License-Identifier: Apache-2.0
"""The report of a scheduled request, as text and JSON. Pure: values in, text out."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence

from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.scheduler import trace

BOLD, DIM, GREEN = '1', '2', '1;32'
MIN_WIDTH = 40
INDENT = '  '
Paint = Callable[[str, str], str]


@dataclasses.dataclass(frozen=True, order=True)
class Rejection:
    """A host that a filter turned down, and why."""

    host: str
    reason: str


@dataclasses.dataclass(frozen=True)
class FilterStep:
    """One filter: hosts in, hosts out, and those that it turned down."""

    filter: str
    start: int
    end: int
    rejected: tuple[Rejection, ...]


@dataclasses.dataclass(frozen=True)
class Score:
    """What one weigher gave to one host; ``weighted`` is what it adds."""

    weigher: str
    raw: float
    normalised: float
    multiplier: float
    weighted: float


@dataclasses.dataclass(frozen=True)
class ScoredHost:
    """A host that passed all filters, and its scores."""

    host: str
    scores: tuple[Score, ...]
    total: float


@dataclasses.dataclass(frozen=True)
class HeldClaim:
    """What placement says that the instance holds: provider to class to amount."""

    consumer: str
    allocations: Mapping[str, Mapping[str, int]]


@dataclasses.dataclass(frozen=True)
class Report:
    """One request and what became of it.

    ``request`` are labelled lines in order; ``steps`` in the order in which
    the filters ran; ``weights`` best host first; ``alternates`` best first.
    ``selected`` and ``claim`` are None when no host was found, and ``failure``
    says why. ``seconds`` pass between the call and its reply.
    """

    request: Mapping[str, str]
    steps: Sequence[FilterStep]
    weights: Sequence[ScoredHost]
    selected: str | None
    claim: HeldClaim | None
    alternates: Sequence[str]
    seconds: float
    failure: str | None = None

    @property
    def funnel(self) -> list[int]:
        """The number of hosts at the start and after each filter that cut it."""
        if not self.steps:
            return []
        ends = [step.end for step in self.steps if step.end != step.start]
        return [self.steps[0].start, *ends]


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
    specs = sorted(request.extra_specs.items())
    return Report(
        request={
            'instance': request.instance_uuid,
            'flavor': f'{request.vcpus} vCPU, {request.memory_mb} MiB memory, '
            f'{request.root_gb} GiB disk',
            'zone': request.availability_zone or 'any',
            'extra specs': ', '.join(f'{key}={value}' for key, value in specs)
            or 'none',
        },
        steps=_steps(decision) if decision else [],
        weights=_scored_hosts(decision) if decision else [],
        selected=hosts[0] if hosts else None,
        claim=HeldClaim(request.instance_uuid, allocations) if allocations else None,
        alternates=hosts[1:],
        seconds=seconds,
        failure=failure,
    )


def _steps(decision: trace.Decision) -> list[FilterStep]:
    found = []
    for step in decision.steps:
        reasons = step.reasons(decision.request)
        rejected = tuple(Rejection(host.host, str(reason)) for host, reason in reasons)
        found.append(FilterStep(step.name, len(step.before), len(step.after), rejected))
    return found


def _scored_hosts(decision: trace.Decision) -> list[ScoredHost]:
    """Return the scores of the ranked hosts, in that order."""
    weighed = decision.weighed
    places = {row: place for place, row in enumerate(weighed.hosts.rows.tolist())}
    names, found = weighed.hosts.host.tolist(), []
    for place in (places[row] for row in decision.ranked.rows.tolist()):
        scores = []
        for each in weighed.weighings:
            columns = (each.raw, each.normalized, each.multipliers)
            raw, normalised, times = (float(column[place]) for column in columns)
            scores.append(Score(each.name, raw, normalised, times, times * normalised))
        total = float(weighed.totals[place])
        found.append(ScoredHost(names[place], tuple(scores), total))
    return found


def as_text(report: Report, width: int = 80, colour: bool = False) -> str:
    """Return the report in sections, wrapped to ``width`` columns."""

    def paint(text: str, code: str) -> str:
        return f'\033[{code}m{text}\033[0m' if colour else text

    width = max(width, MIN_WIDTH)
    funnel = ' -> '.join(map(str, report.funnel))
    sections = (
        (paint('Request', BOLD), _request(report, width)),
        (f'{paint("Filters", BOLD)}  {funnel}', _filters(report, width, paint)),
        (paint('Weights', BOLD), _weights(report.weights, width)),
        (paint('Result', BOLD), _result(report, width, paint)),
    )
    texts = []
    for title, lines in sections:
        if body := [INDENT + line for line in lines]:
            texts.append('\n'.join([title.rstrip(), *body]))
    return '\n\n'.join(texts) + '\n'


def as_json(report: Report) -> str:
    found = dataclasses.asdict(report)
    fields = {'request': found.pop('request'), 'funnel': report.funnel, **found}
    return json.dumps(fields, indent=2) + '\n'


def _request(report: Report, width: int) -> Iterator[str]:
    label_width = max(map(len, report.request), default=0)
    for label, text in report.request.items():
        yield from _wrapped(f'{label:<{label_width}}  ', text, width)


def _filters(report: Report, width: int, paint: Paint) -> Iterator[str]:
    """Yield a line for each filter, and its reasons, the most frequent first."""
    name_width = max((len(step.filter) for step in report.steps), default=0)
    for step in report.steps:
        yield f'{step.filter:<{name_width}}{step.start:>5} -> {step.end}'
        groups: dict[str, list[str]] = {}
        for each in sorted(step.rejected):
            groups.setdefault(each.reason, []).append(each.host)
        for reason in sorted(groups, key=lambda reason: (-len(groups[reason]), reason)):
            hosts = groups[reason]
            count = '1 host' if len(hosts) == 1 else f'{len(hosts)} hosts'
            yield from _wrapped(f'  {count}: ', reason, width)
            for line in _wrapped('    ', ', '.join(hosts), width):
                yield paint(line, DIM)


def _weights(rows: Sequence[ScoredHost], width: int) -> Iterator[str]:
    """Lay the scores out as a table; a narrow terminal gets one host a block."""
    if not rows:
        return
    table = [('host', 'weigher', 'raw', 'normalised', 'x', 'adds', 'total')]
    for row in rows:
        head = (row.host, f'{row.total:.4f}')
        for score in row.scores:
            numbers = _number(score.raw), f'{score.normalised:.4f}'
            adds = _number(score.multiplier), f'{score.weighted:.4f}'
            table.append((head[0], score.weigher, *numbers, *adds, head[1]))
            head = ('', '')
        if not row.scores:
            table.append((row.host, '', '', '', '', '', head[1]))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    if sum(widths) + 2 * len(widths) - 2 > width - len(INDENT):
        for row in rows:
            yield f'{row.host}  {row.total:.4f}'
            for each in row.scores:
                raw = _number(each.raw)
                yield f'  {each.weigher}  {raw}, adds {each.weighted:.4f}'
        return
    for line in table:
        cells = [
            f'{cell:<{w}}' if number < 2 else f'{cell:>{w}}'
            for number, (cell, w) in enumerate(zip(line, widths, strict=True))
        ]
        yield '  '.join(cells).rstrip()


def _result(report: Report, width: int, paint: Paint) -> Iterator[str]:
    if report.selected is None:
        yield from _wrapped('', report.failure or 'No host was found.', width)
    else:
        yield f'selected    {paint(report.selected, GREEN)}'
    if report.claim:
        for provider, amounts in report.claim.allocations.items():
            held = ', '.join(f'{name} {n}' for name, n in amounts.items())
            yield from _wrapped('claimed     ', f'{held} on {provider}', width)
    if report.alternates:
        yield from _wrapped('alternates  ', ', '.join(report.alternates), width)
    yield f'took        {report.seconds:.3f} s'


def _wrapped(label: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text,
        width - len(INDENT),
        initial_indent=label,
        subsequent_indent=' ' * len(label),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _number(value: float) -> str:
    return f'{value:.0f}' if value.is_integer() else f'{value:.4f}'

# SPDX-License-Identifier: Apache-2.0
"""The report of a scheduled request, as text and JSON. Pure: values in, text out."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
    claim = HeldClaim(request.instance_uuid, allocations) if allocations else None
    return Report(
        request=_request_lines(request),
        steps=_steps(decision) if decision else [],
        weights=_weighed_hosts(decision) if decision else [],
        selected=hosts[0] if hosts else None,
        claim=claim,
        alternates=hosts[1:],
        seconds=seconds,
        failure=failure,
    )


def _request_lines(request: RequestSpec) -> dict[str, str]:
    specs = sorted(request.extra_specs.items())
    return {
        'instance': request.instance_uuid,
        'flavor': f'{request.vcpus} vCPU, {request.memory_mb} MiB memory, '
        f'{request.root_gb} GiB disk',
        'zone': request.availability_zone or 'any',
        'extra specs': ', '.join(f'{key}={value}' for key, value in specs) or 'none',
    }


def _steps(decision: trace.Decision) -> list[FilterStep]:
    return [
        FilterStep(
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


def _weighed_hosts(decision: trace.Decision) -> list[ScoredHost]:
    """Return the scores of the ranked hosts, in that order."""
    weighed = decision.weighed
    places = {row: place for place, row in enumerate(weighed.hosts.rows.tolist())}
    order = [places[row] for row in decision.ranked.rows.tolist()]
    names = weighed.hosts.host.tolist()
    return [
        ScoredHost(
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


def as_text(report: Report, width: int = 80, colour: bool = False) -> str:
    """Return the report in sections, wrapped to ``width`` columns."""
    paint = _paint if colour else _plain
    width = max(width, MIN_WIDTH)
    sections = [
        _section(paint('Request', BOLD), _request(report, width)),
        _section(
            f'{paint("Filters", BOLD)}  {" -> ".join(map(str, report.funnel))}',
            _filters(report, width, paint),
        ),
        _section(paint('Weights', BOLD), _weights(report.weights, width)),
        _section(paint('Result', BOLD), _result(report, width, paint)),
    ]
    return '\n\n'.join(section for section in sections if section) + '\n'


def as_json(report: Report) -> str:
    """Return the report as one JSON object, with the fields of Report."""
    found = dataclasses.asdict(report)
    fields = {'request': found.pop('request'), 'funnel': report.funnel, **found}
    return json.dumps(fields, indent=2) + '\n'


def _request(report: Report, width: int) -> Iterator[str]:
    label_width = max(map(len, report.request), default=0)
    for label, text in report.request.items():
        yield from _wrapped(f'{label:<{label_width}}  ', text, width)


def _filters(report: Report, width: int, paint: Paint) -> Iterator[str]:
    name_width = max((len(step.filter) for step in report.steps), default=0)
    for step in report.steps:
        counts = f'{step.start:>5} -> {step.end}'
        yield f'{step.filter:<{name_width}}{counts}'
        for reason, hosts in _by_reason(step.rejected).items():
            yield from _wrapped(f'  {_count(hosts)}: ', reason, width)
            names = _wrapped('    ', ', '.join(hosts), width)
            yield from (paint(line, DIM) for line in names)


def _weights(rows: Sequence[ScoredHost], width: int) -> Iterator[str]:
    """Lay the scores out as a table; a narrow terminal gets one host a block."""
    table = [['host', 'weigher', 'raw', 'normalised', 'x', 'adds', 'total']]
    for row in rows:
        total = f'{row.total:.4f}'
        for number, score in enumerate(row.scores):
            first = not number
            table.append(
                [
                    row.host if first else '',
                    score.weigher,
                    _number(score.raw),
                    f'{score.normalised:.4f}',
                    _number(score.multiplier),
                    f'{score.weighted:.4f}',
                    total if first else '',
                ]
            )
        if not row.scores:
            table.append([row.host, '', '', '', '', '', total])
    if len(table) == 1:
        return
    lines = list(_columns(table))
    if max(map(len, lines)) <= width - len(INDENT):
        yield from lines
        return
    for row in rows:
        yield f'{row.host}  {row.total:.4f}'
        for score in row.scores:
            yield f'  {score.weigher}  {_number(score.raw)}, adds {score.weighted:.4f}'


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


def _by_reason(rejected: Iterable[Rejection]) -> dict[str, list[str]]:
    """Group the hosts, sorted, by reason; the most frequent reason first."""
    groups: dict[str, list[str]] = {}
    for each in sorted(rejected):
        groups.setdefault(each.reason, []).append(each.host)
    return dict(sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])))


def _columns(table: list[list[str]]) -> Iterator[str]:
    """Align a table: the first two columns left, the numbers right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = [
            f'{cell:<{w}}' if number < 2 else f'{cell:>{w}}'
            for number, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        yield '  '.join(cells).rstrip()


def _section(title: str, lines: Iterable[str]) -> str:
    body = [INDENT + line for line in lines]
    return '\n'.join([title.rstrip(), *body]) if body else ''


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


def _count(hosts: Sequence[str]) -> str:
    return '1 host' if len(hosts) == 1 else f'{len(hosts)} hosts'


def _paint(text: str, colour: str) -> str:
    return f'\033[{colour}m{text}\033[0m'


def _plain(text: str, colour: str) -> str:
    return text

# SPDX-License-Identifier: Apache-2.0
"""The words for what a shadow compares, and its report as text, for people."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from novasched.decisions.comparison import (
    Cause,
    KnownBy,
    NovaChoice,
    ServerComparison,
    Verdict,
)
from novasched.inspection.questions.shadow import (
    ShadowReport,
    SystematicDifference,
)
from novasched.inspection.texts.amounts import duration, percent
from novasched.inspection.texts.lines import (
    BOLD,
    GREEN,
    RED,
    SEPARATOR,
    Fact,
    Style,
    Table,
    counted,
    first_of,
    length,
    shown,
    table,
    unbroken,
)
from novasched.runtime.times import time_of

SHOWN = 10
"""Differences and hosts that a text shows; --long shows all of the report."""
VERDICTS: Mapping[str, str] = {
    Verdict.EQUAL: 'the same choice',
    Verdict.ALIKE: 'hosts of one weight',
    Verdict.BETTER: 'our host weighs more',
    Verdict.WORSE: "nova's host weighs more",
    Verdict.REJECTED: "nova's host is not among our survivors",
    Verdict.OURS_ONLY: 'nova found no host, and we did',
    Verdict.NOVA_ONLY: 'we found no host, and nova did',
    Verdict.UNKNOWN: "nova's choice is not known",
}
CAUSES: Mapping[str, str] = {
    Cause.FILTER: "a filter of ours rejects nova's host",
    Cause.NOT_OFFERED: "nova's host was not offered to us by placement",
    Cause.CHANCE: 'chance chose, among ties or a subset of the best',
    Cause.SAME_REQUEST: 'an earlier server of the request went elsewhere',
    Cause.OTHER_REQUEST: 'another request was decided between the two',
    Cause.LATE: 'nova had claimed before we decided',
    Cause.NO_CANDIDATES: 'placement gave nova no candidate, or no answer',
    Cause.NOVA_FILTERS: "nova's filters rejected all hosts",
    Cause.NOVA_ERROR: 'nova failed',
    Cause.TRUNCATED: "placement's answer to nova was cut, without our host",
    Cause.WEIGHERS: "nova's weighers weigh otherwise",
    Cause.UNKNOWN: 'nothing known explains it',
}
KNOWN_BY: Mapping[str, str] = {
    KnownBy.ALLOCATION: 'by its allocation',
    KnownBy.INSTANCE: 'by its row in the cell',
    KnownBy.FAILED: 'the server is in error',
    KnownBy.UNCLAIMED: 'nothing was claimed for it within a minute',
}
FINDINGS: Mapping[str, str] = {
    Cause.WEIGHERS: "Without {name}, or with its sign changed, nova's host is the best "
    'in {servers} of {of} differences of weight: compare its multiplier with that in '
    'the nova.conf of nova-scheduler.',
    Cause.FILTER: "{name} rejects nova's host for {servers} of {of} servers: compare "
    'enabled_filters and its options with those in the nova.conf of nova-scheduler.',
    Cause.NOT_OFFERED: "Placement did not offer nova's host to us for {servers} of "
    '{of} servers: compare the options of [scheduler] with those in the nova.conf of '
    'nova-scheduler.',
}
"""Findings as sentences, by their cause."""
WITHOUT = (
    "Weighers without which nova's host is the best, where nothing else explains it:"
)
EMPTY = (
    'Nothing was compared since {since}. The shadow needs [novasched] shadow = true, '
    'and requests that reach nova-scheduler. A comparison is kept once nova has '
    'chosen, after 60 s at the latest. For a longer time: novasched shadow report '
    '--since 7d'
)


def verdict_of(verdict: str) -> str:
    """Return a verdict in words; a later release may know more of them."""
    return VERDICTS.get(verdict, verdict)


def cause_of(
    verdict: str, cause: str, detail: str = '', weighers: Sequence[str] = ()
) -> str:
    """Return a cause in words, with its detail; '' if there is none."""
    text = CAUSES.get(cause, cause)
    is_unexplained = cause in (Cause.UNKNOWN, Cause.WEIGHERS)
    if weighers and is_unexplained and verdict == Verdict.BETTER:
        text = f"{text}; without {' or '.join(weighers)} nova's host is the best"
    return f'{text} ({detail})' if detail else text


def choice(nova: NovaChoice) -> str:
    """Return the choice of nova in words, with its source and delay."""
    if not nova.is_known:
        return verdict_of(Verdict.UNKNOWN)
    return ', '.join([nova.host or 'no host', *known(nova)])


def known(nova: NovaChoice) -> list[str]:
    """Return the source of a choice, its delay, hosts that refused, and the fault."""
    if not nova.is_known:
        return []
    said = [
        KNOWN_BY.get(nova.known_by, nova.known_by),
        f'seen after {nova.seen_s:.1f} s',
        '' if nova.took_s is None else f'decided in {nova.took_s * 1000:.0f} ms',
        f'refused by {", ".join(nova.refused)}' if nova.refused else '',
        f'its fault: {nova.fault}' if nova.fault else '',
    ]
    return list(filter(None, said))


def comparison(compared: ServerComparison) -> str:
    """Return the verdict on a server, and the cause; '' if there is nothing to say."""
    verdict = compared.verdict
    if verdict == Verdict.UNKNOWN:
        return ''
    ours, novas = compared.our_weight, compared.nova_weight
    weights = '' if ours is None else f' ({shown(ours)} and {shown(novas)})'
    cause = cause_of(verdict, compared.cause, compared.detail, compared.weighers)
    return f'{verdict_of(verdict)}{weights}{f": {cause}" if cause else ""}'


def finding(found: SystematicDifference) -> str:
    """Return a finding as a sentence."""
    return FINDINGS[found.cause].format(**vars(found))


def compared(found: Sequence[ServerComparison]) -> Table:
    """Return our choice and nova's for each server of a decision."""
    rows = [
        (
            Fact(each.server, 'server'),
            Fact(each.ours or '', 'host'),
            Fact(each.nova.host or '', 'host', note=', '.join(known(each.nova))),
            comparison(each) or verdict_of(each.verdict),
        )
        for each in found
    ]
    return table(('Server', 'Ours', "Nova's", 'Verdict and cause'), rows)


def as_text(report: ShadowReport, style: Style) -> str:
    """Return the report; what is systematically different comes first."""
    same, *others = map(str, figures(report))
    painted = style.paint(same, BOLD if report.different else GREEN)
    head = (*map(str, extent(report)), same, *others)
    lines = (line.replace(same, painted) for line in style.packed('', head, SEPARATOR))
    findings = (style.labelled('Finding', finding(e), RED) for e in report.findings)
    parts: Iterable[Iterable[str]] = (
        lines,
        () if report.servers else style.wrapped('', nothing_compared(report)),
        itertools.chain.from_iterable(findings),
        verdicts(report).lines(),
        causes(report).lines(),
        (line for each in blamed(report) for line in style.wrapped('', str(each))),
        style.labelled('Refused', said) if (said := refused(report)) else (),
        latencies(report).lines(),
        style.packed('Gaps', first_of(gaps(report), SHOWN), SEPARATOR),
        _differences(report, style),
    )
    return '\n\n'.join(filter(None, map('\n'.join, parts)))


def nothing_compared(report: ShadowReport) -> str:
    """Say that nothing was compared, and what a shadow needs."""
    return EMPTY.format(since=time_of(report.since))


def extent(report: ShadowReport) -> list[Fact]:
    """Return the time of a report, and how much was compared in it."""
    return [
        Fact(time_of(report.since), 'time', 'since'),
        Fact(time_of(report.until), 'time', 'until'),
        Fact(counted(report.requests, 'request')),
        Fact(counted(report.servers, 'server')),
    ]


def figures(report: ShadowReport) -> list[Fact]:
    """Return the figures of a report, each under its label."""
    whole_s = (report.until - report.since) / 1e6
    return [
        Fact(share(report.same, report.known), label='as nova, or alike'),
        Fact(f'{report.known:,}', label='known choices'),
        Fact(f'{report.different:,}', label='differences'),
        Fact(f'{length(report.tapped_s)} of {length(whole_s)}', label='tapped'),
    ]


def verdicts(report: ShadowReport) -> Table:
    """Return how many servers have each verdict."""
    return _counts('Verdict', report.verdicts, VERDICTS, report.servers)


def causes(report: ShadowReport) -> Table:
    """Return how many differences have each cause."""
    return _counts('Cause', report.causes, CAUSES, report.different)


def _counts(
    name: str, counts: Mapping[str, int], words: Mapping[str, str], total: int
) -> Table:
    rows = [
        (
            words.get(word, word),
            f'{count:,}',
            Fact(share(count, total), 'share', value=percent(count, total)),
        )
        for word, count in counts.items()
    ]
    return table((name, 'Servers', 'Share'), rows)


def share(count: int, total: int) -> str:
    """Return a part of a total in percent."""
    return f'{percent(count, total)} %' if total else '-'


def blamed(report: ShadowReport) -> Iterator[Fact]:
    """Yield the filters and weighers that explain most differences."""
    for label, counts in (
        ("Filters of ours that reject nova's host:", report.filters),
        (WITHOUT, report.weighers),
    ):
        if counts:
            yield Fact(', '.join(top(counts)), label=label)


def top(counts: Mapping[str, int], most: int = SHOWN) -> list[str]:
    """Return names with their counts, the most frequent ones."""
    return first_of([unbroken(f'{name} {n}') for name, n in counts.items()], most)


def refused(report: ShadowReport) -> str:
    """Return the hosts that refused nova's choices, in words; '' if none did."""
    found = report.refusals
    if not found.servers:
        return ''
    return (
        f"{counted(found.servers, 'server')} by nova's host "
        f'({", ".join(top(found.hosts))}); we chose another host for '
        f'{found.elsewhere} of them'
    )


def latencies(report: ShadowReport) -> Table:
    """Return our latency and nova's side by side, each with what it is of."""
    rows = [
        (name, duration(each.p50), duration(each.p99), counted(each.number, noun))
        for name, each, noun in (
            ('ours', report.our_ms, 'request'),
            ('nova', report.nova_ms, 'request'),
            ('nova seen within', report.seen_ms, 'server'),
        )
        if each.number
    ]
    return table(('Took', 'p50', 'p99', 'Of'), rows)


def gaps(report: ShadowReport) -> list[str]:
    """Return the times without a tap, each with its length."""
    said = []
    for each in report.gaps:
        is_over = each.until < report.until
        until = f'to {time_of(each.until)}' if is_over else 'until now'
        said.append(f'{time_of(each.since)} {until} ({length(each.length_s)})')
    more = report.gaps_total - len(said)
    return [*said, f'{more} more'] if more > 0 else said


def differences(report: ShadowReport, style: Style) -> Table:
    """Return the differences of a report, the newest first."""
    names = ('Decision', 'Time', 'Server', 'Flavor', 'Ours', "Nova's")
    return table((*names, 'Verdict and cause'), list(_rows(report, style)))


def _rows(report: ShadowReport, style: Style) -> Iterator[Sequence[Fact]]:
    for each in report.differences:
        cause = cause_of(each.verdict, each.cause, each.detail, each.weighers_named)
        yield (
            Fact(each.id, 'decision'),
            Fact(time_of(each.at), 'time'),
            Fact(style.uuid(each.server), 'server', value=each.server),
            Fact(each.flavor, 'flavor'),
            Fact(each.ours or '', 'host'),
            Fact(each.nova or '', 'host'),
            Fact(f'{verdict_of(each.verdict)}: {cause}'),
        )


def _differences(report: ShadowReport, style: Style) -> Iterator[str]:
    """Yield the newest differences, each with what to ask next."""
    rows = list(_rows(report, style))[: None if style.is_long else SHOWN]
    for id, at, server, flavor, ours, nova, said in rows:
        on = f'server {server.text}'
        head = (style.paint(id.text, BOLD), at.text, on, flavor.text)
        yield from style.packed('', head, '  ')
        choices = f'ours {ours.text or "none"}, nova {nova.text or "none"}'
        yield from style.wrapped('  ', f'{choices}; {said}')
        commands = f'novasched explain {id.text}', f'novasched shadow replay {id.text}'
        yield f'  {SEPARATOR.join(commands)}'
    if (more := report.different - len(rows)) > 0:
        yield f'{counted(more, "more difference")}: novasched decisions list --differs'

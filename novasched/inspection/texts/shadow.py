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
    Difference,
    Latency,
    ShadowReport,
    SystematicDifference,
    UntappedTime,
)
from novasched.inspection.texts.lines import (
    BOLD,
    GREEN,
    RED,
    SEPARATOR,
    Style,
    columns,
    counted,
    first_of,
    length,
    shown,
)
from novasched.runtime.times import SECONDS, time_of

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


def as_text(report: ShadowReport, style: Style) -> str:
    """Return the report; what is systematically different comes first."""
    if not report.servers:
        lines = style.wrapped('', EMPTY.format(since=time_of(report.since)))
        return '\n'.join([*lines, *_times(report, style)])
    same = f'{report.same} of {report.known} as nova, or alike'
    head = (
        f'{time_of(report.since)} to {time_of(report.until)}',
        counted(report.requests, 'request'),
        counted(report.servers, 'server'),
        same,
    )
    painted = style.paint(same, BOLD if report.different else GREEN)
    findings = [
        style.labelled('Finding', finding(each), RED) for each in report.findings
    ]
    parts: Iterable[Iterable[str]] = (
        (line.replace(same, painted) for line in style.packed('', head, SEPARATOR)),
        itertools.chain.from_iterable(findings),
        _table('Verdict', report.verdicts, VERDICTS, report.servers),
        _table('Cause', report.causes, CAUSES, report.different),
        style.packed('Filter', top(report.filters), SEPARATOR),
        _times(report, style),
        _differences(report, style),
    )
    return '\n\n'.join(filter(None, map('\n'.join, parts)))


def _table(
    name: str, counts: Mapping[str, int], words: Mapping[str, str], total: int
) -> list[str]:
    """Return counts in the order of their words, with what they are of."""
    rows = [
        [words.get(word, word), str(count), share(count, total)]
        for word, count in counts.items()
    ]
    return columns([name, 'Servers', 'Share'], rows, {name}) if rows else []


def share(count: int, total: int) -> str:
    """Return a part of a total in percent."""
    return f'{100 * count / total:.1f} %' if total else '-'


def top(counts: Mapping[str, int], most: int = SHOWN) -> list[str]:
    """Return names with their counts, the most frequent ones."""
    return first_of([f'{name} {count}' for name, count in counts.items()], most)


def _times(report: ShadowReport, style: Style) -> Iterator[str]:
    """Yield refusals, latencies, and the times in which nothing was tapped."""
    if said := refused(report):
        yield from style.labelled('Refused', said)
    latencies = [
        f'{name} p50 {each.p50:.0f} ms, p99 {each.p99:.0f} ms of {of}'
        for name, each, of in times_of(report)
        if each.p50 is not None and each.p99 is not None
    ]
    yield from style.packed('Took', latencies, SEPARATOR)
    yield from style.labelled('Tapped', tapped(report))
    gaps = [gap(each, report) for each in report.gaps[:SHOWN]]
    if (more := report.gaps_total - len(gaps)) > 0:
        gaps.append(f'{more} more')
    yield from style.packed('Gaps', gaps, SEPARATOR)


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


def times_of(report: ShadowReport) -> list[tuple[str, Latency, str]]:
    """Return the latencies side by side, each with what it is of."""
    return [
        (name, each, counted(each.number, noun))
        for name, each, noun in (
            ('ours', report.our_ms, 'request'),
            ('nova', report.nova_ms, 'request'),
            ('nova seen within', report.seen_ms, 'server'),
        )
    ]


def tapped(report: ShadowReport) -> str:
    """Return the time in which requests were tapped, of the whole."""
    whole_s = (report.until - report.since) / 1e6
    return f'{length(report.tapped_s)} of {length(whole_s)}'


def gap(found: UntappedTime, report: ShadowReport) -> str:
    """Return a time without a tap, and its length."""
    until = f'to {time_of(found.until)}' if found.until < report.until else 'until now'
    return f'{time_of(found.since)} {until} ({length(found.length_s)})'


def _differences(report: ShadowReport, style: Style) -> Iterator[str]:
    """Yield the newest differences, each with what to ask next."""
    most = None if style.is_long else SHOWN
    for each in report.differences[:most]:
        yield from _difference(each, style)
    more = report.different - len(report.differences[:most])
    if more > 0:
        yield f'{counted(more, "more difference")}: novasched decisions list --differs'


def _difference(each: Difference, style: Style) -> Iterator[str]:
    head = (
        style.paint(each.id, BOLD),
        time_of(each.at, SECONDS),
        f'server {style.uuid(each.server)}',
        each.flavor,
    )
    yield from style.packed('', head, '  ')
    cause = cause_of(each.verdict, each.cause, each.detail, each.weighers_named)
    said = f'ours {each.ours or "none"}, nova {each.nova or "none"}'
    yield from style.wrapped('  ', f'{said}; {verdict_of(each.verdict)}: {cause}')
    commands = f'novasched explain {each.id}', f'novasched shadow replay {each.id}'
    yield f'  {SEPARATOR.join(commands)}'

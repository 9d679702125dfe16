# SPDX-License-Identifier: Apache-2.0
"""The report of a shadow, and what nova chose beside one decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from novasched.console.pages import query, shapes, words
from novasched.console.pages.words import Link, View
from novasched.decisions.comparison import SAME, ServerComparison, Verdict
from novasched.inspection.questions.shadow import ShadowReport
from novasched.inspection.session.orders import ShadowOrder
from novasched.inspection.texts import amounts, shadow
from novasched.inspection.texts.lines import shown
from novasched.runtime.times import TIME, time_of

TIMES = ('1h', '24h', '7d', '30d')


def view(answer: ShadowReport, order: ShadowOrder) -> View:
    """Return the values for the page."""
    times = TIMES if order.since in TIMES else (*TIMES, order.since)
    return {
        'command': f'novasched shadow report --since {order.since}',
        'since': time_of(answer.since, TIME),
        'until': time_of(answer.until, TIME),
        'requests': answer.requests,
        'servers': answer.servers,
        'different': answer.different,
        'times': [
            (
                Link(each, query.address('/shadow', [('since', each)])),
                each == order.since,
            )
            for each in times
        ],
        'empty': shadow.EMPTY.format(since=time_of(answer.since)),
        'findings': [shadow.finding(each) for each in answer.findings],
        'figures': [
            (shadow.share(answer.same, answer.known), 'chosen as nova, or alike'),
            (words.grouped(answer.known), 'servers whose choice is known'),
            (words.grouped(answer.different), 'differences'),
            (shadow.tapped(answer), 'tapped'),
        ],
        'verdicts': _counts(answer.verdicts, shadow.VERDICTS, answer.servers),
        'causes': _counts(answer.causes, shadow.CAUSES, answer.different),
        'filters': shadow.top(answer.filters),
        'weighers': shadow.top(answer.weighers),
        'times_of': [
            (name, amounts.duration(each.p50), amounts.duration(each.p99), of)
            for name, each, of in shadow.times_of(answer)
        ],
        'refused': shadow.refused(answer),
        'gaps': [shadow.gap(each, answer) for each in answer.gaps],
        'more_gaps': answer.gaps_total - len(answer.gaps),
        'differences': [
            {
                'at': time_of(each.at, TIME),
                'id': each.id,
                'server': each.server,
                'flavor': each.flavor,
                'ours': each.ours,
                'nova': each.nova,
                'verdict': _verdict(each.verdict),
                'cause': shadow.cause_of(
                    each.verdict, each.cause, each.detail, each.weighers_named
                ),
            }
            for each in answer.differences
        ],
        'all': Link(
            'all decisions that differ',
            query.of_decisions(differs='yes', since=time_of(answer.since)),
        ),
    }


def _counts(
    counts: Mapping[str, int], named: Mapping[str, str], total: int
) -> list[View]:
    return [
        {
            'word': named.get(word, word),
            'count': count,
            'share': shapes.share(count, total),
            'percent': shadow.share(count, total),
        }
        for word, count in counts.items()
    ]


def _verdict(verdict: str) -> View:
    """Return a verdict as it is shown: its kind, sign and words."""
    kind, sign = ('scheduled', '✓') if verdict in SAME else ('unschedulable', '≠')
    if verdict == Verdict.UNKNOWN:
        sign = words.NOTHING
    return {'kind': kind, 'sign': sign, 'word': shadow.verdict_of(verdict)}


def compared(found: Sequence[ServerComparison]) -> list[View]:
    """Return the rows of what nova chose for the servers of a decision."""
    return [
        {
            'server': each.server,
            'ours': each.ours,
            'our_weight': '' if each.our_weight is None else shown(each.our_weight),
            'nova': each.nova.host,
            'nova_weight': '' if each.nova_weight is None else shown(each.nova_weight),
            'known': ', '.join(shadow.known(each.nova)),
            'verdict': _verdict(each.verdict),
            'cause': shadow.cause_of(
                each.verdict, each.cause, each.detail, each.weighers
            ),
        }
        for each in found
    ]

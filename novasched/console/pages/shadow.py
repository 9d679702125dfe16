# SPDX-License-Identifier: Apache-2.0
"""The report of a shadow, and what nova chose beside one decision."""

from __future__ import annotations

from novasched.console.pages import query
from novasched.console.pages.words import Link, View
from novasched.inspection.questions.shadow import ShadowReport
from novasched.inspection.session.orders import ShadowOrder
from novasched.inspection.texts import shadow
from novasched.inspection.texts.lines import Style
from novasched.runtime.times import time_of

TIMES = ('1h', '24h', '7d', '30d')


def view(answer: ShadowReport, order: ShadowOrder) -> View:
    """Return the values for the page."""
    times = TIMES if order.since in TIMES else (*TIMES, order.since)
    return {
        'answer': answer,
        'command': f'novasched shadow report --since {order.since}',
        'times': [
            (
                Link(each, query.address('/shadow', [('since', each)])),
                each == order.since,
            )
            for each in times
        ],
        'empty': shadow.nothing_compared(answer),
        'facts': shadow.extent(answer),
        'figures': shadow.figures(answer),
        'findings': [shadow.finding(each) for each in answer.findings],
        'verdicts': shadow.verdicts(answer),
        'causes': shadow.causes(answer),
        'blamed': list(shadow.blamed(answer)),
        'latencies': shadow.latencies(answer),
        'refused': shadow.refused(answer),
        'gaps': shadow.gaps(answer),
        'differences': shadow.differences(answer, Style()),
        'all': query.of_decisions(differs='yes', since=time_of(answer.since)),
    }

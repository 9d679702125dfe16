# SPDX-License-Identifier: Apache-2.0
"""The overview: what the schedulers did in the last hour."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from novasched.console.pages import query, shapes, words
from novasched.console.pages.words import Link, View
from novasched.inspection.questions.reports import Overview
from novasched.inspection.texts import top
from novasched.inspection.texts.lines import counted, length
from novasched.runtime.times import SECONDS

MINUTES = 60


def view(answer: Overview) -> View:
    """Return the values for the page."""
    since = _since(answer)
    rows = [words.row(each) for each in answer.newest]
    results = answer.results
    return {
        'until': answer.until,
        'window': 'last hour'
        if answer.window_s == 3600
        else f'last {length(answer.window_s)}',
        'figures': top.figures(answer),
        'results': [
            {
                **words.result(name),
                'count': results.get(name, 0),
                'href': query.of_decisions(result=name, since=since),
            }
            for name in words.RESULTS
        ],
        'cells': list(zip(answer.cells, top.cells(answer), strict=True)),
        'schedulers': answer.schedulers,
        'missing': list(top.missing(answer)),
        'minutes': _minutes(answer),
        'blockers': _blockers(answer, since),
        'newest': rows,
        'is_empty': not rows,
    }


def _since(answer: Overview) -> str:
    if answer.until is None:
        return ''
    until = datetime.datetime.fromisoformat(answer.until)
    return (until - datetime.timedelta(seconds=answer.window_s)).strftime(SECONDS)


def _minutes(answer: Overview) -> View | None:
    """Return the columns of the last minutes; those without requests are empty."""
    if answer.until is None:
        return None
    given = {each['at'][:16]: each for each in answer.minutes}
    until = datetime.datetime.fromisoformat(answer.until)
    number = max(1, min(MINUTES, round(answer.window_s / 60)))
    starts = [
        (until - datetime.timedelta(minutes=ago)).replace(second=0, microsecond=0)
        for ago in range(number - 1, -1, -1)
    ]
    rows = [given.get(start.strftime('%Y-%m-%dT%H:%M'), {}) for start in starts]
    chart = shapes.columns(rows, words.RESULTS)
    made = [
        _minute(start, row, chart, place)
        for place, (start, row) in enumerate(zip(starts, rows, strict=True))
    ]
    results = answer.results
    total = sum(results.values())
    said = ', '.join(f'{results.get(n, 0)} {top.word(n)}' for n in words.RESULTS)
    return {
        'width': chart.width,
        'height': shapes.HEIGHT,
        'most': chart.most,
        'label': f'{counted(total, "request")} by minute: {said}; '
        f'at most {chart.most} in a minute',
        'columns': made,
        'first': made[0]['clock'],
        'middle': made[len(made) // 2]['clock'],
        'last': made[-1]['clock'],
    }


def _minute(
    start: datetime.datetime,
    row: Mapping[str, Any],
    chart: shapes.ColumnChart,
    place: int,
) -> View:
    end = start + datetime.timedelta(minutes=1)
    numbers = [row.get(name, 0) for name in words.RESULTS]
    said = [f'{row[name]} {top.word(name)}' for name in words.RESULTS if row.get(name)]
    clock = start.strftime('%H:%M')
    return {
        'x': chart.at(place),
        'blocks': chart.stacks[place],
        'clock': clock,
        'numbers': numbers,
        'total': sum(numbers),
        'title': f'{clock}: {", ".join(said) or "none"}',
        'href': query.of_decisions(
            since=start.strftime(SECONDS), until=end.strftime(SECONDS)
        ),
    }


def _blockers(answer: Overview, since: str) -> list[View]:
    """Return the blockers of requests, the most frequent first."""
    most = max((each.count for each in answer.blockers), default=0)
    made = []
    for each in answer.blockers:
        link: Link = words.blamed(each.blocker, since=since)
        code = each.code
        opened = query.of_decisions(plugin=each.blocker, code=code, since=since)
        made.append(
            {
                'link': link,
                'code': Link(code, opened if code else ''),
                'count': each.count,
                'share': shapes.share(each.count, most),
            }
        )
    return made

# SPDX-License-Identifier: Apache-2.0
"""The funnel of a decision as rows: each stage, what it left and what it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from novasched.console.pages import query, shapes, words
from novasched.console.pages.query import PageQuery
from novasched.console.pages.words import Link, View
from novasched.inspection.texts import funnel
from novasched.inspection.texts.stages import (
    EARLIER_SERVERS,
    NAMED_HOSTS,
    PLACEMENT,
    WAS_NOT_NAMED,
)
from novasched.scheduler.reasons import Code

KNOWN = 'known'
HOSTS = '#hosts'
NOT_ASKED = {
    PLACEMENT: 'reasons were not asked for',
    EARLIER_SERVERS: 'rejected for an earlier server of the request',
}
"""What is said of hosts without a reason, by the stage that took them."""


def view(
    stages: Sequence[Mapping[str, Any]], asked: PageQuery, has_hosts: bool
) -> View | None:
    """Return the rows; None if no host was looked at."""
    if not stages:
        return None
    known = stages[0]['in']
    idle = [each for each in stages if each['in'] == each['out']]
    return {
        'known': known,
        'known_link': _link(asked, has_hosts),
        'summary': funnel.summary(stages),
        'rows': [
            _row(each, known, asked, has_hosts)
            for each in stages
            if each['in'] != each['out']
        ],
        'idle': [each['name'] for each in idle],
        'left': stages[-1]['out'],
    }


def _row(
    stage: Mapping[str, Any], known: int, asked: PageQuery, has_hosts: bool
) -> View:
    left, taken = stage['out'], stage['in'] - stage['out']
    name = stage['name']
    return {
        'name': name,
        'left': left,
        'taken': taken,
        'left_share': shapes.share(left, known),
        'taken_share': shapes.share(taken, known),
        'left_link': _link(asked, has_hosts and left > 0, after=name),
        'taken_link': _link(asked, has_hosts, stage=_outcome(name)),
        'reasons': [_reason(each, name) for each in stage['reasons']],
    }


def _outcome(stage: str) -> str:
    """Return the outcome of the hosts that a stage took."""
    return WAS_NOT_NAMED if stage == NAMED_HOSTS else stage


def _link(asked: PageQuery, has_hosts: bool, **chosen: str) -> str:
    """Return the address of the hosts that a number counts."""
    if not has_hosts:
        return ''
    address = asked.href(**{'stage': None, 'after': None, 'page': None, **chosen})
    return f'{address}{HOSTS}'


def notes(explained: Mapping[str, Any]) -> dict[str, str]:
    """Return the remarks on stages beside their reasons, by their names."""
    if diagnosis := explained['placement']:
        seconds = diagnosis['age_s']
        age = words.age(abs(seconds))
        old = f'found in a copy of placement {age} old'
        return {PLACEMENT: f'found {age} later' if seconds < 0 else old}
    if not explained['candidates']:
        return {}
    last: Mapping[str, Any] = (explained['asked'] or [{}])[-1]
    source = ', answered by the copy of placement' if last.get('copied') else ''
    said = [f'{words.grouped(explained["candidates"])} offered{source}']
    if explained['cut'] or last.get('cut'):
        limit = last.get('limit')
        said.append(f'cut at the limit of {limit}' if limit else 'cut')
    if explained['further']:
        said.append('more were asked for')
    return {PLACEMENT: ', '.join(said)}


def _reason(reason: Mapping[str, Any], stage: str) -> View:
    code, what, text = str(reason['code']), reason['what'], reason['text']
    name = f'{code} {what}'.strip()
    link = Link(name, query.of_decisions(code=code))
    if code == Code.NOT_ASKED:
        link, text = Link(''), NOT_ASKED.get(stage) or text or NOT_ASKED[PLACEMENT]
    return {
        'link': link,
        'count': reason['count'],
        'text': words.in_units(what, text),
        'example': Link(reason['example'], query.of_host(reason['example'])),
        'is_one': reason['count'] == 1,
    }

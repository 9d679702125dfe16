# SPDX-License-Identifier: Apache-2.0
"""The funnel of a decision as rows: each stage, what it left and what it took."""

from __future__ import annotations

from collections.abc import Sequence

from novasched.console.pages import shapes
from novasched.console.pages.query import PageQuery
from novasched.console.pages.words import View
from novasched.decisions.decided import NAMED_HOSTS, WAS_NOT_NAMED, Stage
from novasched.inspection.texts import funnel

HOSTS = '#hosts'


def view(stages: Sequence[Stage], asked: PageQuery, has_hosts: bool) -> View | None:
    """Return the rows; None if no host was looked at."""
    if not stages:
        return None
    known = stages[0].before
    return {
        'known': known,
        'known_link': _link(asked, has_hosts),
        'summary': funnel.summary(stages),
        'rows': [_row(s, known, asked, has_hosts) for s in stages if s.taken],
        'idle': [stage.name for stage in stages if not stage.taken],
    }


def _row(stage: Stage, known: int, asked: PageQuery, has_hosts: bool) -> View:
    has_left = has_hosts and stage.after > 0
    return {
        'stage': stage,
        'left_share': shapes.share(stage.after, known),
        'taken_share': shapes.share(stage.taken, known),
        'left_link': _link(asked, has_left, after=stage.name),
        'taken_link': _link(asked, has_hosts, stage=outcome_of(stage.name)),
    }


def outcome_of(stage: str) -> str:
    """Return the outcome of the hosts that a stage took."""
    return WAS_NOT_NAMED if stage == NAMED_HOSTS else stage


def _link(asked: PageQuery, has_hosts: bool, **chosen: str) -> str:
    """Return the address of the hosts that a number counts."""
    if not has_hosts:
        return ''
    address = asked.href(**{'stage': None, 'after': None, 'page': None, **chosen})
    return f'{address}{HOSTS}'

# SPDX-License-Identifier: Apache-2.0
"""Texts of a failed request: for the caller as far as an option allows, and the log."""

from __future__ import annotations

import enum
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from oslo_config import cfg

from novasched import errors
from novasched.decisions.body import RecordBody
from novasched.decisions.record import Head
from novasched.decisions.record_builder import RecordBuilder
from novasched.decisions.recording import RequestRecorder
from novasched.http import error_words
from novasched.objects.context import RequestContext
from novasched.ports import QueryFailed
from novasched.scheduler.outline import Outline
from novasched.scheduler.reasons import Blocker, Code

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.StrOpt(
            'no_valid_host_detail',
            default='none',
            choices=[
                ('none', "Nova's text, which gives no reason."),
                ('user', 'How many hosts were rejected, and why; no names.'),
                ('admin', 'Also the names of some hosts, and of cells left out.'),
            ],
            help="""
How much the error NoValidHost says of why there is none.

The text goes to nova-conductor, and from there into the fault of the server: ``user``
and ``admin`` name the audience that may read it. The reasons are worded as on the page
of reasons. The last word is the id by which ``novasched explain`` shows the decision.
The text has 230 characters at most: the rarest reasons are counted as others. For a
failed request, each filter explains each host that it rejected, 1,000 hosts at most.
That takes 10 to 100 ms for 1,000 hosts.
""",
        ),
    ],
}

LONGEST = 230
"""Characters of the whole text: a fault keeps 255."""
LONGEST_ANSWER = 120
LONGEST_CELLS = 60
"""Characters of the names of cells; of more, the number is given."""
PREFIX = 'No valid host was found. '
TELLING = (
    Code.TRAIT_MISSING,
    Code.TRAIT_FORBIDDEN,
    Code.CLASS_MISSING,
    Code.AMOUNT_NOT_ALLOWED,
    Code.EXHAUSTED,
)
"""Codes of conditions on a trait or a resource class, which are named; others name
providers and aggregates."""
UNKNOWN = (
    (re.compile(r'No such trait\(s\): (.+?)\.?$', re.MULTILINE), 'trait'),
    (re.compile(r'No such resource class (\S+?)\.?$', re.MULTILINE), 'resource class'),
)
"""Words of placement on names that it does not know."""


class Level(enum.StrEnum):
    """Audience of the text."""

    NONE = 'none'  # the text says no more than nova's
    USER = 'user'
    ADMIN = 'admin'


@dataclass(frozen=True)
class FaultText:
    """Puts into NoValidHost what the level allows."""

    builder: RecordBuilder
    level: Level = Level.NONE

    @classmethod
    def from_conf(cls, conf: Any, builder: RecordBuilder) -> Self:
        return cls(builder, Level(conf.novasched.no_valid_host_detail))

    def explained(
        self, recorder: RequestRecorder, error: errors.NoValidHost
    ) -> errors.NoValidHost:
        """Return the error with the reasons and the id of the record."""
        if self.level is Level.NONE:
            return error
        recorder.failing = True
        try:
            return self._explained(recorder)
        except Exception:  # the error of the request must not become another
            LOG.exception('The reasons for request %s cannot be given', recorder.id)
            return error

    def _explained(self, recorder: RequestRecorder) -> errors.NoValidHost:
        end = f' ({recorder.id})'
        width = LONGEST - len(PREFIX) - len(end)
        return errors.NoValidHost(self._reason(recorder, width) + end)

    def _reason(self, recorder: RequestRecorder, width: int) -> str:
        cells = _cells(self.builder.cells_left_out(recorder), self.level)
        answer = recorder.queries[-1].answer if recorder.queries else None
        blocker = recorder.blocker
        if isinstance(answer, QueryFailed) and blocker == Blocker.PLACEMENT_FAILED:
            return f'{self._of_answer(answer)}{cells}'[:width]
        outlines = self.builder.outlines(recorder)
        made = [outlines[id(t)] for t in recorder.turns if id(t) in outlines]
        last = made[-1] if made else None
        counts: dict[str, tuple[int, str]] = {}
        for code, (hosts, names) in self._counts(recorder, last):  # of several filters
            others, before = counts.get(code, (0, ''))
            counts[code] = others + hosts, before or names
        if not counts:
            text = blocker.doc if blocker else 'No host is offered.'
            return f'{text}{cells}'[:width]
        known = last.hosts if last is not None else sum(n for n, _ in counts.values())
        uuids = recorder.instance_uuids or ()
        turn = next((t for t in reversed(recorder.turns) if t.decision), None)
        which = ''
        if len(uuids) > 1 and turn is not None:
            which = f'For server {turn.index + 1} of {len(uuids)}: '
        return _fitting(f'{which}0 of {known} hosts: ', counts, f'.{cells}', width)

    def _of_answer(self, answer: QueryFailed) -> str:
        if not answer.status:
            return 'Placement did not answer.'
        words = error_words(answer.text)
        for unknown, kind in UNKNOWN:
            if found := unknown.search(words):
                name = f' {found[1]}' if self.level is Level.ADMIN else ''
                return f'Placement does not know the {kind}{name} that is asked for.'
        more = f': {words[:LONGEST_ANSWER]}' if self.level is Level.ADMIN else '.'
        return f'Placement answered with HTTP {answer.status}{more}'

    def _counts(
        self, recorder: RequestRecorder, last: Outline | None
    ) -> Iterator[tuple[str, tuple[int, str]]]:
        """Yield each reason with its number of hosts, and the names that may be shown.

        Only words of the closed list are given on, and names of resource classes and
        traits: the text of a plugin may name a host.
        """
        named = self.level is Level.ADMIN
        diagnosis = self.builder.diagnosis(recorder)
        if diagnosis is not None:
            for each in diagnosis.reasons:
                what = f' {each.what}' if each.what and each.code in TELLING else ''
                yield f'{each.code}{what}', (each.hosts, '')
        elif last is not None and last.candidates < last.hosts:
            yield 'not offered by placement', (last.hosts - last.candidates, '')
        if last is None:
            return
        rejected = sum(step.before - step.after for step in last.steps)
        if other := last.candidates - last.left - rejected:
            yield 'not named by the request', (other, '')
        for step in last.steps:
            for reason in step.reasons:
                names = f' ({reason.example} ...)' if reason.hosts > 1 else ''
                names = names or f' ({reason.example})'
                shown = named and bool(reason.example)
                yield reason.code, (reason.hosts, names if shown else '')
        if last.left:
            yield 'not granted by placement', (last.left, '')


def _cells(cells: list[str], level: Level) -> str:
    names = ', '.join(cells)
    named = level is Level.ADMIN and len(names) <= LONGEST_CELLS
    return f' Cells left out: {names if named else len(cells)}.' if cells else ''


def _fitting(
    start: str, counts: Mapping[str, tuple[int, str]], end: str, width: int
) -> str:
    """Return as many reasons as there is room for, the most frequent first; those that
    there is none for are counted."""
    ordered = sorted(counts.items(), key=lambda each: (-each[1][0], each[0]))
    parts = [f'{code} {hosts}{names}' for code, (hosts, names) in ordered]
    for kept in range(len(parts), 0, -1):
        rest = sum(hosts for _, (hosts, _) in ordered[kept:])
        others = [f'{rest} others'] if rest else []
        text = start + ', '.join([*parts[:kept], *others]) + end
        if len(text) <= width:
            return text
    total = sum(hosts for hosts, _ in counts.values())
    return f'{start}{total} others{end}'[:width]


def log_failure(head: Head, record_body: RecordBody, context: RequestContext) -> None:
    """Write the line of a request that had no valid host; its keys stay as they are.

    ``context`` is the request's, as the line is written in another thread.
    """
    asked = record_body.last_query
    said = {
        'decision': head.id,
        'blocker': head.blocker or '-',
        'plugin': head.plugin or '-',
        'code': head.code or '-',
        'hosts': head.hosts,
        'candidates': max(head.candidates, 0),
        'cut': 'yes' if asked is not None and asked.cut else 'no',
        'left_out': _word(','.join(record_body.view.left_out)),
        'servers': head.servers,
        'flavor': _word(head.flavor),
        'zone': _word(head.zone),
        'took_ms': head.took_us // 1000,
    }
    pairs = ' '.join(f'{key}={value}' for key, value in said.items())
    # oslo.log's formatter for JSON shows what ``extra_keys`` names.
    extra = {**said, 'extra_keys': list(said), 'context': _ids_of(context)}
    LOG.info('No valid host: %s', pairs, extra=extra)


def _ids_of(context: RequestContext) -> RequestContext:
    """Return a context with the ids that lines of the log begin with, and no more."""
    return RequestContext(
        request_id=context.request_id,
        global_request_id=context.global_request_id,
        user_id=context.user_id,
        project_id=context.project_id,
        domain_id=context.domain_id,
        user_domain_id=context.user_domain_id,
        project_domain_id=context.project_domain_id,
        overwrite=False,
    )


def _word(text: str) -> str:
    """Return a name as one word: it may have anything in it."""
    return re.sub(r'[\s=]', '_', text) or '-'

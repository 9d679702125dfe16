# SPDX-License-Identifier: Apache-2.0
"""The cause that ended a request, in a sentence, and the changes that would help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from novasched import errors
from novasched.decisions.body import DiagnosisReason
from novasched.decisions.decided import Stage, StageReason, most_first
from novasched.decisions.record import WAITING
from novasched.inspection.questions.explain import Explanation
from novasched.inspection.texts import advice, funnel
from novasched.inspection.texts.lines import counted
from novasched.scheduler.reasons import Blocker, Code

MOST_REASONS = 3
MOST_REMEDIES = 3
BY_STAGES = (Blocker.FILTERS, Blocker.NO_CANDIDATES, Blocker.UNKNOWN_HOSTS)
"""Blockers that are stages of the funnel."""
WHILE_WAITING = 'Why is being found out: ask again in a minute.'
UNKNOWN = 'Placement gives no reasons, and none were found out.'
MEANINGS = {str(blocker): blocker.doc for blocker in Blocker}
OUT_OF_SCOPE = (Code.NOT_IN_TREE, Code.AGGREGATE_MISSING, Code.NOT_NAMED)
"""Reasons of hosts that were not asked for; reasons of other hosts count more."""


def blocked(explained: Explanation) -> str:
    """Return why a request ended: the blocker, and the reasons with their numbers."""
    blocker, plugin = explained.cause, explained.plugin
    last, stages = explained.last_taking, explained.stages
    which = ''
    if explained.servers_total > 1 and explained.index is not None:
        which = f', for server {explained.index}'
    if blocker == Blocker.NO_CANDIDATES:
        return f'placement{which}: {_by_placement(explained)}'
    if blocker == Blocker.FILTERS and last:
        hosts = f'the last {last.before}' if last.before > 1 else 'the last one'
        return (
            f'filters{which}: {plugin} rejected {hosts} of '
            f'{counted(stages[0].before, "host")}: {_by_filter(last.reasons)}'
        )
    if explained.code == Code.CELL_LEFT_OUT:
        return f'{blocker}: {_by_cells(explained, last.before if last else 0)}'
    named = f': {plugin}' if plugin not in ('', 'placement') else ''
    said = [MEANINGS[blocker]] if blocker in MEANINGS else []
    said += filter(None, [_error(explained)])
    return f'{blocker}{named}{which}. {" ".join(said)}'


def remedies(explained: Explanation) -> list[str]:
    """Return the advice for the most frequent reasons.

    Reasons of the stage that took the last hosts come first.
    """
    last, blocker = explained.last_taking, explained.cause
    diagnosis = explained.placement
    if blocker == Blocker.NO_CANDIDATES and diagnosis is None:
        return []
    found: dict[str, str] = {}
    if last and blocker in BY_STAGES:
        reasons = diagnosis.reasons if diagnosis is not None else ()
        diagnosed = {(reason.code, reason.name): reason for reason in reasons}
        for reason in _to_mend(explained.stages, last, diagnosed):
            if text := _remedy(explained, reason, diagnosed.get(_key(reason))):
                found.setdefault(reason.name, text)
    lines = [f'{name}{text}' for name, text in found.items()][:MOST_REMEDIES]
    if not lines and blocker in advice.BLOCKERS:
        lines = [_held_before(explained) or advice.BLOCKERS[blocker]]
    return lines


def _held_before(explained: Explanation) -> str:
    """Return the advice on allocations that a new server had already; '': it had
    none."""
    error, server = explained.error, explained.server
    if error is None or error.kind != errors.AlreadyClaimed.__name__:
        return ''
    uuid = server.uuid if server is not None else None
    return advice.HELD_BEFORE.replace('{}', uuid or 'UUID')


def _key(reason: StageReason) -> tuple[str, str]:
    return reason.code, reason.what


def _to_mend(
    stages: Sequence[Stage],
    last: Stage,
    diagnosed: Mapping[tuple[str, str], DiagnosisReason],
) -> list[StageReason]:
    """Return the reasons that should be mended, those that help most first.

    They come from the stage that took the last hosts, one from another that took more.
    """

    def alone(reason: StageReason) -> int:
        found = diagnosed.get(_key(reason))
        return found.only if found is not None else 0

    own = sorted(last.reasons, key=lambda reason: -alone(reason))
    near = [reason for reason in own if reason.code not in OUT_OF_SCOPE]
    far = [reason for reason in own if reason.code in OUT_OF_SCOPE]
    others = [r for stage in stages if stage is not last for r in stage.reasons]
    more = [
        reason
        for reason in most_first(others)
        if reason.code not in OUT_OF_SCOPE and reason.count > last.taken
    ]
    ordered = [*near[:2], *filter(alone, far), *more[:1], *near[2:], *far]
    return [reason for reason in ordered if reason.code != Code.NOT_ASKED]


def _by_filter(reasons: Sequence[StageReason]) -> str:
    """Return why a filter rejected hosts; a single reason with its text."""
    if len(reasons) > 1:
        return funnel.of_reasons(reasons[:MOST_REASONS])
    return funnel.of_reason(reasons[0], has_count=False)


def _by_cells(explained: Explanation, offered: int) -> str:
    cells, ages_s = explained.cells_left_out, explained.cell_ages_s
    named = [
        f'{cell} (last read {ages_s[cell]:.0f} s before)' if cell in ages_s else cell
        for cell in cells
    ]
    verb = 'does' if len(cells) == 1 else 'do'
    return (
        f'{", ".join(named)} {verb} not answer, and has the '
        f'{counted(offered, "host")} that placement offered.'
    )


def _by_placement(explained: Explanation) -> str:
    diagnosis = explained.placement
    if diagnosis is None or not diagnosis.reasons:
        why = WHILE_WAITING if explained.diagnosis == WAITING else UNKNOWN
        return f'it offered none of {counted(explained.known, "host")}. {why}'
    reasons = sorted(diagnosis.reasons, key=lambda each: each.code not in OUT_OF_SCOPE)
    said = [advice.sentence(reason) for reason in reasons[:MOST_REASONS]]
    more = sum(reason.hosts for reason in reasons[MOST_REASONS:])
    said += [f'{more} have other reasons'] if more else []
    return f'of {counted(diagnosis.hosts, "host")}, {", ".join(said)}.'


def _remedy(
    explained: Explanation, reason: StageReason, diagnosed: DiagnosisReason | None
) -> str:
    """Return the words after the code of a reason; '': nothing is known."""
    said = advice.advice_for(reason.code)
    shown = ''
    if diagnosed is not None:
        has_zone = explained.request is not None and bool(explained.request.zone)
        said = advice.specific(diagnosed, has_zone) or said
    elif reason.example:
        shown = f' ({": ".join(filter(None, [reason.example, reason.text]))})'
    return f'{shown}: {said}' if said else ''


def _error(explained: Explanation) -> str:
    """Return the text of the error that the caller got, or placement's, unless it was
    made of this record."""
    error, last = explained.error, explained.last_query
    if explained.blocker == Blocker.PLACEMENT_FAILED and last.text is not None:
        status = f'HTTP {last.status}' if last.status else 'no answer'
        return f'{status}: {last.text}'
    if error is None or error.text.startswith(errors.NOT_ENOUGH_HOSTS):
        return ''
    if error.kind == errors.NoValidHost.__name__:
        return '' if error.text.endswith(f'({explained.id})') else error.text
    return f'{error.kind}: {error.text}'.removesuffix(': ')

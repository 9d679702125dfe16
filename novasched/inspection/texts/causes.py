# SPDX-License-Identifier: Apache-2.0
"""The cause that ended a request, in a sentence, and the changes that would help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from novasched import errors
from novasched.inspection.questions.explain import WAITING
from novasched.inspection.texts import advice, funnel, stages
from novasched.inspection.texts.lines import counted
from novasched.scheduler.reasons import Blocker, Code

MOST_REASONS = 3
MOST_REMEDIES = 3
BY_STAGES = (Blocker.FILTERS, Blocker.NO_CANDIDATES, Blocker.UNKNOWN_HOSTS)
"""Blockers that are stages of the funnel."""
WHILE_WAITING = 'Why is being found out: ask again in a minute.'
UNKNOWN = 'Placement gives no reasons, and none were found out.'
OUT_OF_SCOPE = (Code.NOT_IN_TREE, Code.AGGREGATE_MISSING, Code.NOT_NAMED)
"""Reasons of hosts that were not asked for; reasons of other hosts count more."""

SENTENCES: Mapping[str, str] = {
    Code.NOT_IN_TREE: '{hosts} {are} not the one that is named',
    Code.AGGREGATE_MISSING: '{hosts} {are} not in aggregate {what}',
    Code.AGGREGATE_FORBIDDEN: '{hosts} {are} in aggregate {what}, which is ruled out',
    Code.DISABLED: '{hosts} {are} disabled',
    Code.TRAIT_MISSING: '{hosts} {have} no trait {what}',
    Code.TRAIT_FORBIDDEN: '{hosts} {have} the forbidden trait {what}',
    Code.CLASS_MISSING: '{hosts} {have} no {what} at all',
}
"""What hosts lack; behind it stands an example, but where it is their place."""
OF_PLACE = (Code.NOT_IN_TREE, Code.AGGREGATE_MISSING, Code.AGGREGATE_FORBIDDEN)

Explained = Mapping[str, Any]
Reason = Mapping[str, Any]


def blocked(explained: Explained) -> str:
    """Return why a request ended: the blocker, and the reasons with their numbers."""
    blocker, plugin = explained['blocker'] or Blocker.ERROR, explained['plugin']
    last = last_taking(explained)
    if blocker == Blocker.NO_CANDIDATES:
        return f'placement{_for_server(explained)}: {_by_placement(explained)}'
    if blocker == Blocker.FILTERS and last:
        hosts = f'the last {last["in"]}' if last['in'] > 1 else 'the last one'
        known = counted(explained['stages'][0]['in'], 'host')
        return (
            f'filters{_for_server(explained)}: {plugin} rejected {hosts} of {known}: '
            f'{_by_filter(last["reasons"])}'
        )
    if explained['code'] == Code.CELL_LEFT_OUT:
        return f'{blocker}: {_by_cells(explained, last["in"] if last else 0)}'
    which = f': {plugin}' if plugin not in ('', 'placement') else ''
    said = [advice.BLOCKERS[blocker].meaning] if blocker in advice.BLOCKERS else []
    said += filter(None, [_error(explained)])
    return f'{blocker}{which}{_for_server(explained)}. {" ".join(said)}'


def remedies(explained: Explained) -> list[str]:
    """Return the advice for the most frequent reasons.

    Reasons of the stage that took the last hosts come first.
    """
    last = last_taking(explained)
    blocker = explained['blocker'] or Blocker.ERROR
    if blocker == Blocker.NO_CANDIDATES and not explained['placement']:
        return []
    found: dict[str, str] = {}
    if last and blocker in BY_STAGES:
        reasons = (explained['placement'] or {}).get('reasons', ())
        diagnosed = {(each['code'], stages.name_of(each)): each for each in reasons}
        for reason in _to_mend(explained['stages'], last, diagnosed):
            if text := _remedy(explained, reason, diagnosed.get(_key(reason))):
                name = f'{reason["code"]} {reason["what"]}'.strip()
                found.setdefault(name, text)
    lines = [f'{name}{text}' for name, text in found.items()][:MOST_REMEDIES]
    if not lines and blocker in advice.BLOCKERS:
        lines = [_held_before(explained) or advice.BLOCKERS[blocker].advice]
    return lines


def _held_before(explained: Explained) -> str:
    """Return the advice on allocations that a new server had already; '': it had
    none."""
    error = explained['error']
    if not error or error['class'] != errors.AlreadyClaimed.__name__:
        return ''
    index, servers = explained['index'] or 0, explained['servers']
    uuid = servers[index]['uuid'] if index < len(servers) else None
    return advice.HELD_BEFORE.replace('{}', uuid or 'UUID')


def _key(reason: Reason) -> tuple[str, str]:
    return reason['code'], reason['what']


def _to_mend(
    made: Sequence[Mapping[str, Any]],
    last: Mapping[str, Any],
    diagnosed: Mapping[tuple[str, str], Reason],
) -> list[Reason]:
    """Return the reasons that should be mended, those that help most first.

    They come from the stage that took the last hosts, one from another that took more.
    """

    def alone(reason: Reason) -> int:
        return int(diagnosed.get(_key(reason), {}).get('only', 0))

    own = sorted(last['reasons'], key=lambda each: -alone(each))
    near = [each for each in own if each['code'] not in OUT_OF_SCOPE]
    far = [each for each in own if each['code'] in OUT_OF_SCOPE]
    others = [r for stage in made if stage is not last for r in stage['reasons']]
    taken = last['in'] - last['out']
    more = [
        each
        for each in stages.most_first(others)
        if each['code'] not in OUT_OF_SCOPE and each['count'] > taken
    ]
    ordered = [*near[:2], *filter(alone, far), *more[:1], *near[2:], *far]
    return [each for each in ordered if each['code'] != Code.NOT_ASKED]


def last_taking(explained: Explained) -> Mapping[str, Any] | None:
    """Return the stage that took the last hosts."""
    taking = [each for each in explained['stages'] if each['in'] > each['out']]
    return taking[-1] if taking else None


def _for_server(explained: Explained) -> str:
    of_many = explained['servers_total'] > 1 and explained['index'] is not None
    return f', for server {explained["index"]}' if of_many else ''


def _by_filter(reasons: Sequence[Reason]) -> str:
    """Return why a filter rejected hosts; a single reason with its text."""
    if len(reasons) > 1:
        return funnel.of_reasons(reasons[:MOST_REASONS])
    return funnel.of_reason(reasons[0], has_count=False)


def _by_cells(explained: Explained, offered: int) -> str:
    cells, ages_s = explained['cells_left_out'], explained['cell_ages_s']
    named = [
        f'{each} (last read {ages_s[each]:.0f} s before)' if each in ages_s else each
        for each in cells
    ]
    verb = 'does' if len(cells) == 1 else 'do'
    return (
        f'{", ".join(named)} {verb} not answer, and has the '
        f'{counted(offered, "host")} that placement offered.'
    )


def _by_placement(explained: Explained) -> str:
    diagnosis = explained['placement']
    hosts = counted(explained['known'], 'host')
    if not diagnosis or not diagnosis['reasons']:
        why = WHILE_WAITING if explained['diagnosis'] == WAITING else UNKNOWN
        return f'it offered none of {hosts}. {why}'
    reasons = sorted(
        diagnosis['reasons'], key=lambda each: each['code'] not in OUT_OF_SCOPE
    )
    said = [_sentence(each) for each in reasons[:MOST_REASONS]]
    more = sum(each['hosts'] for each in reasons[MOST_REASONS:])
    said += [f'{more} have other reasons'] if more else []
    return f'of {counted(diagnosis["hosts"], "host")}, {", ".join(said)}.'


def _sentence(reason: Reason) -> str:
    """Return in plain words what hosts lack, by a reason of a placement diagnosis."""
    hosts, what, one = reason['hosts'], stages.name_of(reason), reason['hosts'] == 1
    example = f'{"" if one else "e.g. "}{reason["example"]}'
    are, have = ('is', 'has') if one else ('are', 'have')
    wanted, largest = reason.get('wanted'), reason.get('largest')
    if form := SENTENCES.get(reason['code']):
        said = form.format(hosts=hosts, are=are, have=have, what=what)
        return said if reason['code'] in OF_PLACE else f'{said} ({example})'
    match reason['code']:
        case Code.EXHAUSTED if wanted is not None:
            numbers = f'{wanted} wanted, at most {largest} on {reason["example"]}'
            return f'{hosts} {have} too little free {what} ({numbers})'
        case Code.AMOUNT_NOT_ALLOWED if wanted is not None and wanted > largest:
            gives = 'gives' if one else 'give'
            numbers = f'{wanted} wanted, {example}'
            return f'{hosts} {gives} a server at most {largest} {what} ({numbers})'
    return f'{hosts} {reason["code"]} {what}'.rstrip() + f' ({example})'


def _remedy(explained: Explained, reason: Reason, diagnosed: Reason | None) -> str:
    """Return the words after the code of a reason; '': nothing is known."""
    said = advice.advice_for(reason['code'])
    if diagnosed is not None:
        said = _specific(explained, diagnosed) or said
    where = ': '.join(filter(None, [reason['example'], reason['text']]))
    shown = f' ({where})' if where and reason['example'] and diagnosed is None else ''
    return f'{shown}: {said}' if said else ''


def _specific(explained: Explained, reason: Reason) -> str:
    """Return the advice, with names and numbers; '': the general
    advice must do."""
    what, example, only = stages.name_of(reason), reason['example'], reason['only']
    wanted, largest = reason.get('wanted'), reason.get('largest')
    match reason['code']:
        case Code.DISABLED:
            others = f', or another of the {reason["hosts"]}' * (reason['hosts'] > 1)
            alone = '' if only else '; each of these hosts fails something else, too'
            return (
                f'Enable {example}{others}: openstack compute service set --enable '
                f'{example} nova-compute{alone}.'
            )
        case Code.AGGREGATE_MISSING:
            asked = 'ask for what has no such rule'
            if (explained['request'] or {}).get('zone'):
                asked = 'ask for another zone'
            if not only:
                return f'Each of these hosts fails something else, too: {asked}.'
            fails = 'hosts fail' if only > 1 else 'host fails'
            return (
                f'{only} {fails} nothing else (e.g. {example}): {asked}, or add '
                f'hosts to {what or "the aggregate"}.'
            )
        case Code.EXHAUSTED if wanted is not None and largest < wanted:
            return (
                f'Free {wanted - largest} more on {example}, add hosts, raise the '
                f'allocation ratio, or use a smaller flavor (at most {largest}).'
            )
        case Code.AMOUNT_NOT_ALLOWED if wanted is not None and largest < wanted:
            return (
                f'Use a smaller flavor (at most {largest}), or hosts that have '
                f'{wanted}.'
            )
        case Code.TRAIT_MISSING if only:
            return (
                f'Take it out of flavor and image, or let a host report it '
                f'({example} fails nothing else).'
            )
    return ''


def _error(explained: Explained) -> str:
    """Return the text of the error that the caller got, or placement's, unless it was
    made of this record."""
    error = explained['error']
    last = (explained['asked'] or [{}])[-1]
    if explained['blocker'] == Blocker.PLACEMENT_FAILED and 'text' in last:
        status = f'HTTP {last["status"]}' if last['status'] else 'no answer'
        return f'{status}: {last["text"]}'
    if not error or error['text'].startswith(errors.NOT_ENOUGH_HOSTS):
        return ''
    if error['class'] == errors.NoValidHost.__name__:
        text = str(error['text'])
        return '' if text.endswith(f'({explained["id"]})') else text
    return f'{error["class"]}: {error["text"]}'.removesuffix(': ')

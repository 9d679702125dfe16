# SPDX-License-Identifier: Apache-2.0
"""A decision: its funnel, weights, hosts, claims and request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from novasched.console.pages import funnel, outcomes, query, scores, shapes, words
from novasched.console.pages.query import PageQuery
from novasched.console.pages.words import Link, View
from novasched.decisions.request_summary import (
    FlavorSummary,
    GroupSummary,
    ImageSummary,
    RequestSummary,
)
from novasched.inspection.texts import causes, render, weights
from novasched.inspection.texts.lines import counted
from novasched.runtime.typed_json import of_json

HEAD = {
    'flavor': 'flavor',
    'zone': 'zone',
    'project_id': 'project',
    'request_id': 'request',
}
"""Fields, and the criteria by which there are other decisions of them."""
HEAD_ONLY = render.HEAD_ONLY[0].upper() + render.HEAD_ONLY[1:] + '.'


def view(explained: Mapping[str, Any], asked: PageQuery) -> View:
    """Return the values for the page."""
    is_scheduled = explained['result'] == 'scheduled'
    said = _counted_from_one(explained)
    return {
        **_head(said),
        'blocked': '' if is_scheduled else _sentence(causes.blocked(said)),
        'remedies': [] if is_scheduled else causes.remedies(explained),
        'won_by': weights.gap_text(explained) if is_scheduled else '',
        'decisive': _decisive(explained) if is_scheduled else [],
        'tries': weights.tries_of(explained).lstrip(', '),
        'servers': _servers(explained, asked),
        'plan': query.address('/plan', [('like', explained['id'])])
        if explained['kept'] == 'whole'
        else '',
        'missing': [
            *render.unavailable_cells(explained),
            *words.missing(explained.get('unanswered')),
        ],
        'head_only': HEAD_ONLY if explained['kept'] == 'head' else '',
        'funnel': funnel.view(
            explained['stages'], asked, explained['hosts'] is not None
        ),
        'notes': funnel.notes(explained),
        'scores': scores.view(explained),
        'outcomes': outcomes.view(explained, asked),
        'diagnosis': _diagnosis(explained),
        'claims': [{**e, 'link': _host(e['host'])} for e in explained['claims']],
        'more_claims': explained['claims_total'] - len(explained['claims']),
        'took': _took(explained),
        'request': _request(explained),
        'queries': [_query(each) for each in explained['asked']],
        'remarks': explained['notes'],
        'policy': _policy(explained['policy'] or {}),
    }


def _counted_from_one(explained: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the explanation, with the number of the server instead of its index."""
    index = explained['index']
    return explained if index is None else {**explained, 'index': index + 1}


def _decisive(explained: Mapping[str, Any]) -> list[View]:
    """Return the weighers that decided it, and the host of each without them."""
    return [
        {'weigher': name, 'host': _host(host)}
        for name, host in weights.decisive(explained).items()
    ]


def _head(explained: Mapping[str, Any]) -> View:
    return {
        'id': explained['id'],
        'result': words.result(explained['result']),
        'title': render.result_of(explained)[0].capitalize()
        if explained['result'] == 'unschedulable'
        else _capital(render.result_of(explained)[0]),
        'at': explained['at'],
        'worker': explained['worker'].rpartition(':')[0] or explained['worker'],
        'took_ms': explained['took_ms'],
        **{
            name: words.to_decisions(explained[name], **{criterion: explained[name]})
            for name, criterion in HEAD.items()
        },
        'command': f'novasched explain {explained["id"]}',
    }


def _sentence(text: str) -> str:
    """Return a text that begins with a capital letter."""
    return text[:1].upper() + text[1:]


def _capital(text: str) -> str:
    """Return a heading whose first word alone was in capitals."""
    first, _, rest = text.partition(' ')
    return f'{first.capitalize()} {rest}'.rstrip()


def _host(name: str | None) -> Link:
    return words.to_host(name) if name else Link('several hosts')


def _servers(explained: Mapping[str, Any], asked: PageQuery) -> list[View]:
    """Return the servers of the request: where they are, and the page of each."""
    several = explained['servers_total'] > 1
    return [
        {
            'number': number + 1,
            'href': asked.href(index=number, stage=None, after=None, page=None),
            'is_shown': several and number == explained['index'],
            'uuid': words.to_decisions(
                each['uuid'] or words.NOTHING, server=each['uuid'] or ''
            ),
            'host': words.to_host(each['host']),
            'alternates': [*map(words.to_host, each.get('alternates') or ())],
        }
        for number, each in enumerate(explained['servers'])
    ]


def _diagnosis(explained: Mapping[str, Any]) -> list[View]:
    """Return why placement held hosts back, by the reasons of its diagnosis."""
    reasons = (explained['placement'] or {}).get('reasons', ())
    return [
        {
            **each,
            'name': f'{each["code"]} {each["named"] or each["what"]}'.strip(),
            'example': words.to_host(each['example']),
        }
        for each in reasons
    ]


def _took(explained: Mapping[str, Any]) -> View | None:
    """Return how long each stage took, as a bar in parts."""
    took = {name: ms or 0.0 for name, ms in explained['stages_ms'].items()}
    if not sum(took.values()):
        return None
    names = [name for name in render.STAGES if name in took]
    names += sorted(set(took) - set(names))
    parts = shapes.segments([(name, took[name]) for name in names])
    kinds = {name: place % 6 for place, name in enumerate(names)}
    rows = [
        {'name': name, 'ms': f'{took[name]:.1f}', 'kind': kinds[name]} for name in names
    ]
    said = ', '.join(f'{each["name"]} {each["ms"]}' for each in rows)
    return {
        'label': f'Milliseconds by stage: {said}',
        'rows': rows,
        'parts': [part._replace(kind=str(kinds[part.kind])) for part in parts],
    }


def _query(asked: Mapping[str, Any]) -> View:
    """Return a query to placement, and what came of it."""
    said = [
        f'HTTP {asked["status"]}' if asked.get('status') else '',
        'no answer' if asked.get('status') == 0 else '',
        counted(asked['candidates'], 'candidate'),
        f'{asked["limit"]} at most' if asked.get('limit') else '',
        'cut' if asked.get('cut') else '',
        'answered by the copy of placement' if asked.get('copied') else '',
        f'not by the copy: {asked["fallback"]}' if asked.get('fallback') else '',
        asked.get('text', ''),
    ]
    return {'query': asked['query'], 'said': ', '.join(filter(None, said))}


def _request(explained: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Return the request: headings, and lines under each."""
    stored = explained['request']
    if not stored:
        return []
    request = of_json(RequestSummary, stored)
    made = [
        ('Flavor', list(_flavor(request.flavor))),
        ('Image', list(_image(request.image))),
        ('Zone', [request.zone] if request.zone else []),
        ('Server group', list(_group(request.group))),
        ('Named hosts', request.named_places),
        ('Forced hosts', list(request.forced)),
        ('Ignored hosts', list(request.ignored)),
        ('Hints', request.sorted_hints),
        ('Also', list(render.counts_and_kinds(request))),
    ]
    return [(name, lines) for name, lines in made if lines]


def _flavor(flavor: FlavorSummary | None) -> Iterator[str]:
    if flavor is not None:
        yield flavor.name
        yield counted(flavor.vcpus, 'CPU')
        yield f'{words.amount("MEMORY_MB", flavor.memory_mb)} memory'
        if flavor.disk_gb:
            yield f'{words.amount("DISK_GB", flavor.disk_gb)} disk'
        yield from flavor.sorted_specs


def _image(image: ImageSummary | None) -> Iterator[str]:
    if image is not None:
        yield image.id or 'without id'
        yield from image.sorted_properties


def _group(group: GroupSummary | None) -> Iterator[str]:
    if group is not None:
        yield group.uuid or 'a new one'
        yield f'{"/".join(group.policies)}, {counted(group.members, "member")}'


def _policy(policy: Mapping[str, Any]) -> View | None:
    """Return the operator's choices at the time: short ones, lists, and options."""
    if not policy:
        return None
    short, lists, options = [], [], []
    for name, value in policy.items():
        if name == 'options':
            options = [f'{key} = {each}' for key, each in value.items()]
        elif isinstance(value, Mapping):
            lists.append((name, [f'{key} {_number(n)}' for key, n in value.items()]))
        elif isinstance(value, list | tuple):
            lists.append((name, [str(each) for each in value]))
        else:
            short.append((name, str(value)))
    return {'short': short, 'lists': lists, 'options': options}


def _number(value: Any) -> str:
    """Return a multiplier as it is shown."""
    if not isinstance(value, int | float):
        return str(value)
    return f'×{value:,.6f}'.rstrip('0').rstrip('.')

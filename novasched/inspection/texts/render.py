# SPDX-License-Identifier: Apache-2.0
"""The explanation of a decision as text, for people. Made of its JSON alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from novasched import printable
from novasched.decisions.request_summary import FlavorSummary, RequestSummary
from novasched.inspection.texts import causes, funnel, stages
from novasched.inspection.texts.lines import (
    BOLD,
    GREEN,
    LABEL_WIDTH,
    RED,
    SEPARATOR,
    Style,
    counted,
)
from novasched.inspection.texts.weights import lines as weight_lines
from novasched.inspection.texts.weights import won_by
from novasched.runtime.typed_json import of_json
from novasched.scheduler.outcomes import Outcome, text_of
from novasched.scheduler.reasons import Blocker, Code

MOST_SERVERS = 5
STAGES = (
    'prefilter',
    'query',
    'refresh',
    'filter',
    'score',
    'verify',
    'claim',
    'notify',
)
PLANNED = (Blocker.FILTERS, Blocker.NO_CANDIDATES, Blocker.CLAIMS)
"""Blockers after which a plan shows what would change the answer."""
HEAD_ONLY = (
    'only the head of this record was kept, by [novasched] decisions_keep, or because '
    'there were too many to write'
)

Explained = Mapping[str, Any]


def as_text(explained: Explained, style: Style) -> str:
    """Return the whole explanation of a decision; what ended it comes first."""
    explained = printable.values(explained)
    is_scheduled = explained['result'] == 'scheduled'
    made = [
        *_head(explained, style),
        *(() if is_scheduled else _ended(explained, style)),
        *_asked(explained, style),
        *_servers(explained, style),
        *funnel.lines(explained['stages'], style, notes(explained)),
        *weight_lines(explained, style),
    ]
    if explained['blocker'] == Blocker.NO_CANDIDATES and not explained['placement']:
        for asked in explained['asked'][-1:]:
            made += style.labelled('Query', asked['query'])
    if explained['kept'] == 'head':
        made += style.labelled('Kept', HEAD_ONLY)
    if is_scheduled:
        made += won_by(explained, style)
        made += _cells(explained, style)
    else:
        made += _remedies(explained, style)
    made += _claims_and_timing(explained, style)
    if explained['hosts'] is not None:
        made += _hosts(explained['hosts'])
    if explained['blocker'] in PLANNED and explained['kept'] == 'whole':
        made.append(_label('Next', f'novasched plan boot --like {explained["id"]}'))
    return '\n'.join(line.rstrip() for line in made) + '\n'


def host_as_text(explained: Explained, style: Style) -> str:
    """Return the outcome of one host, then and now."""
    explained = printable.values(explained)
    host = explained['of_host']
    made = [
        *_head(explained, style),
        *_asked(explained, style),
        style.paint(f'Host    {host["host"]}', BOLD),
        *style.labelled('Then', _then(explained, host)),
    ]
    if now := explained['now']:
        made += style.labelled('Now', now['text'])
    else:
        command = f'novasched why-not {host["host"]} --like {explained["id"]}'
        made.append(_label('Next', command))
    return '\n'.join(line.rstrip() for line in made) + '\n'


def _label(label: str, text: str) -> str:
    return f'{label:<{LABEL_WIDTH}}{text}'


def _head(explained: Explained, style: Style) -> Iterator[str]:
    where = explained['worker'].rpartition(':')[0] or explained['worker']
    end = (explained['at'], where, f'{explained["took_ms"]:.0f} ms')
    result, colour = result_of(explained)
    begin = f'{explained["id"]}  {result} '
    first, *others = style.packed('', [begin, *end], '  ')
    yield first.replace(result, style.paint(result, colour), 1)
    yield from others


def result_of(explained: Explained) -> tuple[str, str]:
    """Return in words how a request ended, and the colour of that."""
    if explained['result'] == 'unschedulable':
        return 'NO VALID HOST', RED
    if explained['result'] != 'scheduled':
        return 'FAILED', RED
    total, index = explained['servers_total'], explained['index']
    hosts = [each['host'] for each in explained['servers']]
    host = explained['picked'] or next(iter(hosts), None)
    if total == 1:
        return f'SCHEDULED on {host}' if host else 'SCHEDULED', GREEN
    of_one = f', server {index} on {host}' if host and index is not None else ''
    return f'SCHEDULED {total} servers{of_one}', GREEN


def _asked(explained: Explained, style: Style) -> Iterator[str]:
    """Yield who asked, and for what."""
    servers = explained['servers']
    index = 0 if len(servers) == 1 else explained['index']
    known = index is not None and index < len(servers)
    server = (servers[index]['uuid'] or '') if known else ''
    name = explained['server_name'] or ''
    project, request_id = explained['project_id'], explained['request_id']
    yield from style.packed(
        'server' if server else 'project',
        [
            f'{name} {style.uuid(server)}'.strip() if server else '',
            f'{"project " if server else ""}{style.uuid(project)}' if project else '',
            f'request {request_id}' if request_id else '',
        ],
    )
    head = {'flavor': explained['flavor'], 'zone': explained['zone']}
    parts: Iterable[str] = (f'{key} {value}' for key, value in head.items() if value)
    if stored := explained['request']:
        parts = demands(of_json(RequestSummary, stored), style)
    yield from style.packed('asked', parts)


def demands(request: RequestSummary, style: Style) -> Iterator[str]:
    """Yield in words what a request asks for."""
    if request.flavor:
        yield _flavor(request.flavor)
    if request.image:
        yield f'image {style.uuid(request.image.id or "without id")}'
        yield from request.image.sorted_properties
    if request.zone:
        yield f'zone {request.zone}'
    if group := request.group:
        members = counted(group.members, 'member')
        uuid = style.uuid(group.uuid or '')
        yield f'group {uuid} ({"/".join(group.policies)}, {members})'
    yield from request.named_places
    for word, hosts in (('forced', request.forced), ('ignored', request.ignored)):
        if hosts:
            yield f'{word} {", ".join(hosts)}'
    for hint in request.sorted_hints:
        if not (group and hint.partition('=')[0] == 'group'):
            yield f'hint {hint}'
    yield from counts_and_kinds(request)


def counts_and_kinds(request: RequestSummary) -> Iterator[str]:
    """Yield how many of some things a request asks for, and whether it is a move."""
    counts = {
        'PCI request': request.pci_requests,
        'port': request.ports,
        'NUMA node': request.numa_nodes,
    }
    kinds = {'a move': request.is_move, 'a rebuild': request.is_rebuild}
    yield from (counted(number, noun) for noun, number in counts.items() if number)
    yield from (kind for kind, is_so in kinds.items() if is_so)


def _flavor(flavor: FlavorSummary) -> str:
    pinned = flavor.extra_specs.get('hw:cpu_policy') == 'dedicated'
    sizes = [
        f'{flavor.vcpus} {"PCPU" if pinned else "VCPU"}',
        f'{flavor.memory_mb} MiB',
        f'{flavor.disk_gb} GiB' if flavor.disk_gb else '',
        *flavor.sorted_specs,
    ]
    return f'{flavor.name}: {", ".join(filter(None, sizes))}'


def _servers(explained: Explained, style: Style) -> Iterator[str]:
    """Yield where the servers of a request for several are."""
    total = explained['servers_total']
    if total < 2:
        return
    hosts = Counter(each['host'] for each in explained['servers'] if each['host'])
    most = hosts.most_common(None if style.is_long else MOST_SERVERS)
    more = len(hosts) - len(most)
    placed = [f'{host} {number}' for host, number in most]
    placed += [counted(more, 'more host')] if more else []
    index = explained['index']
    yield from style.packed(
        'Servers',
        [
            f'{total}: {", ".join(placed)}' if placed else f'{total}',
            '' if index is None else f'below: server {index} (--index)',
        ],
    )


def notes(explained: Explained) -> dict[str, str]:
    """Return the remarks on stages beside their reasons, by their names."""
    diagnosis, candidates = explained['placement'], explained['candidates']
    if diagnosis:
        seconds = diagnosis['age_s']
        late = f'{-seconds:.0f} s later'
        age = late if seconds < 0 else f'copy of placement {seconds:.0f} s old'
        return {stages.PLACEMENT: f'({age})'}
    if not candidates:
        return {}
    last: Mapping[str, Any] = (explained['asked'] or [{}])[-1]
    cut = explained['cut'] or last.get('cut')
    limit = f' at {last["limit"]}' if last.get('limit') else ''
    said = [
        f'offered {candidates}',
        f'cut{limit}' if cut else 'not cut',
        *(['further ones were asked for'] if explained['further'] else []),
        *(['of the copy'] if last.get('copied') else []),
        *(['placement gives no reasons'] if explained['blocker'] else []),
    ]
    lost = any(
        each['name'] == stages.PLACEMENT and each['reasons']
        for each in explained['stages']
    )
    return {stages.PLACEMENT: f'({", ".join(said)})'} if lost or cut else {}


def _ended(explained: Explained, style: Style) -> Iterator[str]:
    """Yield what ended the request, and the cells that it could not look at."""
    text = f'by {causes.blocked(explained)}'
    yield from style.labelled('Blocked', text, BOLD)
    if explained['code'] != Code.CELL_LEFT_OUT:
        yield from _cells(explained, style)


def _remedies(explained: Explained, style: Style) -> Iterator[str]:
    """Yield what would have to change."""
    for number, line in enumerate(causes.remedies(explained)):
        yield from style.labelled('' if number else 'Remedy', line)


def _cells(explained: Explained, style: Style) -> Iterator[str]:
    """Yield the cells that were unavailable."""
    for text in unavailable_cells(explained):
        yield from style.labelled('Cells', text)


def unavailable_cells(explained: Explained) -> Iterator[str]:
    """Yield a sentence for each cell that was unavailable."""
    for cell in explained['cells_left_out']:
        age = explained['cell_ages_s'].get(cell)
        read = f' (last read {age:.0f} s before)' if age is not None else ''
        yield f'{cell} was unavailable: its hosts were not looked at{read}'


def _claims_and_timing(explained: Explained, style: Style) -> Iterator[str]:
    """Yield claims, why it was decided again, notes, and how long it took."""
    claims = explained['claims']
    if any(each['outcome'] != Outcome.CLAIMED for each in claims) or len(claims) > 1:
        said = [
            f'{_claimed(each)} {each["outcome"]} {each["ms"]:.0f} ms'
            + (f': {each["text"]}' if each['text'] else '')
            for each in claims
        ]
        more = explained['claims_total'] - len(claims)
        said += [f'{more} more'] if more > 0 else []
        yield from style.packed('Claims', said, SEPARATOR)
    if rounds := explained['rounds']:
        reasons = [f'{text_of(why)} ({times})' for why, times in rounds.items()]
        times = counted(1 + sum(rounds.values()), 'time')
        yield from style.labelled('Decided', f'{times}: {", ".join(reasons)}')
    for note in explained['notes']:
        yield from style.labelled('Note', note)
    if took := explained['stages_ms']:
        said = [f'{name} {took[name]:.0f}' for name in STAGES if name in took]
        said += [f'{n} {ms:.0f}' for n, ms in sorted(took.items()) if n not in STAGES]
        yield from style.labelled('Took', f'{SEPARATOR.join(said)} ms')


def _claimed(claim: Mapping[str, Any]) -> str:
    return claim['host'] or counted(claim['servers'], 'server')


def _hosts(hosts: Mapping[str, str]) -> Iterator[str]:
    """Yield each host and the stage that took it."""
    yield 'Every host'
    width = max(map(len, hosts), default=0)
    for host, outcome in sorted(hosts.items()):
        yield f'  {host:<{width}}  {outcome}'


def _then(explained: Explained, host: Mapping[str, Any]) -> str:
    """Return in words what became of a host."""
    outcome = host['outcome']
    if outcome == stages.PASSED_ALL:
        return _passed(host)
    if outcome is None:
        kept = 'The record does not say what became of it.'
        return 'it was selected.' if host['servers'] else kept
    if outcome == stages.WAS_NOT_NAMED:
        return 'left out: the request names other hosts.'
    name = 'not offered by placement' if outcome == stages.PLACEMENT else outcome
    reasons = host['reasons']
    if not reasons:
        return f'{name}.'
    if not host['is_exact']:
        others = [{**reason, 'example': ''} for reason in reasons]
        return f'{name}: one of {funnel.of_reasons(others)}'
    return f'{name}: {_reason(reasons[0])}'


def _passed(host: Mapping[str, Any]) -> str:
    """Return the rank of a host that passed all filters, and its claims."""
    rank = host['rank']
    place = f'rank {rank} of {host["passed"]}' if rank else 'not among the best'
    role = 'an alternate' if host['is_alternate'] else 'not selected'
    if host['servers']:
        role = 'selected'
    said = [f'{c["host"]} {c["outcome"]} {c["text"]}'.strip() for c in host['claims']]
    claimed = f' Claims: {SEPARATOR.join(said)}.' if said else ''
    return f'passed all filters, {place}: {role}.{claimed}'


def _reason(reason: Mapping[str, Any]) -> str:
    """Return the reason that one host had."""
    text = reason['text']
    if reason['code'] == Code.NOT_ASKED and text and not reason['what']:
        return f'{text}.'
    code = f'{reason["code"]} {reason["what"]}'.strip()
    return f'{code}{f": {text}" if text else ""}'

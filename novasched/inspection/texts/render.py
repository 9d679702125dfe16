# SPDX-License-Identifier: Apache-2.0
"""The explanation of a decision as text, for people. Made of its JSON alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from novasched import printable
from novasched.decisions.decided import (
    EARLIER_SERVERS,
    PASSED_ALL,
    PLACEMENT,
    WAS_NOT_NAMED,
    HostOutcome,
    StageReason,
)
from novasched.decisions.request_summary import (
    FlavorSummary,
    GroupSummary,
    RequestSummary,
)
from novasched.inspection.questions.explain import HEAD, WHOLE, Explanation
from novasched.inspection.texts import causes, funnel, shadow
from novasched.inspection.texts.amounts import duration
from novasched.inspection.texts.lines import (
    BOLD,
    GREEN,
    LABEL_WIDTH,
    RED,
    SEPARATOR,
    Fact,
    Style,
    Table,
    counted,
    table,
)
from novasched.inspection.texts.weights import lines as weight_lines
from novasched.inspection.texts.weights import won_by
from novasched.scheduler.outcomes import Outcome, text_of
from novasched.scheduler.reasons import Blocker, Code

MOST_SERVERS = 5
WITHOUT_ID = 'without id'
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
OUTCOMES = {
    PASSED_ALL: 'passed',
    PLACEMENT: 'not offered by placement',
    WAS_NOT_NAMED: 'not named by the request',
    EARLIER_SERVERS: 'rejected for an earlier server',
}
"""Outcomes of hosts in words; others are the filters that rejected them."""


def as_text(explained: Explanation, style: Style) -> str:
    """Return the whole explanation of a decision; what ended it comes first."""
    explained = printable.values(explained)
    is_scheduled = explained.is_scheduled
    made = [
        *_head(explained, style),
        *(() if is_scheduled else _ended(explained, style)),
        *_asked(explained, style),
        *_servers(explained, style),
        *_compared(explained, style),
        *funnel.lines(explained.stages, style, _shown_notes(explained)),
        *weight_lines(explained, style),
    ]
    if explained.blocker == Blocker.NO_CANDIDATES and explained.placement is None:
        for asked in explained.asked[-1:]:
            made += style.labelled('Query', asked.query)
    if explained.kept == HEAD:
        made += style.labelled('Kept', HEAD_ONLY)
    if is_scheduled:
        made += won_by(explained, style)
        made += _cells(explained, style)
    else:
        made += _remedies(explained, style)
    made += _claims_and_timing(explained, style)
    if explained.hosts is not None:
        made += _hosts(explained.hosts)
    if explained.blocker in PLANNED and explained.kept == WHOLE:
        made.append(_label('Next', f'novasched plan boot --like {explained.id}'))
    return '\n'.join(line.rstrip() for line in made) + '\n'


def host_as_text(explained: Explanation, style: Style) -> str:
    """Return the outcome of one host, then and now."""
    explained = printable.values(explained)
    outcome = explained.of_host
    assert outcome is not None
    made = [
        *_head(explained, style),
        *_asked(explained, style),
        style.paint(f'Host    {outcome.host}', BOLD),
        *style.labelled('Then', _then(outcome)),
    ]
    if explained.now is not None:
        made += style.labelled('Now', explained.now['text'])
    else:
        command = f'novasched why-not {outcome.host} --like {explained.id}'
        made.append(_label('Next', command))
    return '\n'.join(line.rstrip() for line in made) + '\n'


def _label(label: str, text: str) -> str:
    return f'{label:<{LABEL_WIDTH}}{text}'


def _head(explained: Explanation, style: Style) -> Iterator[str]:
    result, colour = result_of(explained)
    begin = f'{explained.id}  {result} '
    end = (str(each) for each in about(explained, style) if not each.label)
    first, *others = style.packed('', [begin, *end], '  ')
    yield first.replace(result, style.paint(result, colour), 1)
    yield from others


def result_of(explained: Explanation) -> tuple[str, str]:
    """Return in words how a request ended, and the colour of that."""
    if explained.result == 'unschedulable':
        return 'NO VALID HOST', RED
    if not explained.is_scheduled:
        return 'FAILED', RED
    total, index = explained.servers_total, explained.index
    hosts = [server.host for server in explained.servers]
    host = explained.picked or next(iter(hosts), None)
    if total == 1:
        return f'SCHEDULED on {host}' if host else 'SCHEDULED', GREEN
    of_one = f', server {index} on {host}' if host and index is not None else ''
    return f'SCHEDULED {total} servers{of_one}', GREEN


def about(explained: Explanation, style: Style) -> list[Fact]:
    """Return when and where a request was decided; with labels who asked for what."""
    name, project = explained.server_name or '', explained.project_id or ''
    is_one = len(explained.servers) == 1 or explained.index is not None
    server = explained.server if is_one else None
    uuid = (server and server.uuid) or ''
    text = f'{name} {style.uuid(uuid)}'.strip()
    made = (
        Fact(explained.at, 'time'),
        Fact(explained.scheduler),
        Fact(duration(explained.took_ms)),
        Fact(text if uuid else '', 'server', 'server', value=uuid),
        Fact(style.uuid(project), 'project', 'project', value=project),
        Fact(explained.request_id or '', 'request', 'request'),
        Fact(explained.flavor, 'flavor', 'flavor'),
        Fact(explained.zone, 'zone', 'zone'),
    )
    return [each for each in made if each.text]


def _asked(explained: Explanation, style: Style) -> Iterator[str]:
    """Yield who asked, and for what."""
    request = explained.request
    said = [each for each in about(explained, style) if each.label]
    if request is not None:  # it has the flavor and the zone, and more of them
        said = [each for each in said if each.by not in ('flavor', 'zone')]
    if said:
        items = [said[0].text, *map(str, said[1:])]
        yield from style.packed(said[0].label, items)
    if request is not None:
        yield from style.packed('asked', demands(request, style))


def demands(request: RequestSummary, style: Style) -> Iterator[str]:
    """Yield in words what a request asks for."""
    if request.flavor:
        name, *sizes = _flavor(request.flavor)
        yield f'{name}: {", ".join(sizes)}'
    if request.image:
        yield f'image {style.uuid(request.image.id or WITHOUT_ID)}'
        yield from request.image.sorted_properties
    if request.zone:
        yield f'zone {request.zone}'
    if group := request.group:
        yield f'group {style.uuid(group.uuid or "")} ({_members(group)})'
    yield from request.named_places
    for word, hosts in (('forced', request.forced), ('ignored', request.ignored)):
        if hosts:
            yield f'{word} {", ".join(hosts)}'
    for hint in request.sorted_hints:
        if not (group and hint.partition('=')[0] == 'group'):
            yield f'hint {hint}'
    yield from _counts_and_kinds(request)


def _counts_and_kinds(request: RequestSummary) -> Iterator[str]:
    """Yield how many of some things a request asks for, and whether it is a move."""
    counts = {
        'PCI request': request.pci_requests,
        'port': request.ports,
        'NUMA node': request.numa_nodes,
    }
    kinds = {'a move': request.is_move, 'a rebuild': request.is_rebuild}
    yield from (counted(number, noun) for noun, number in counts.items() if number)
    yield from (kind for kind, is_so in kinds.items() if is_so)


def _flavor(flavor: FlavorSummary) -> list[str]:
    """Return the name of a flavor, its sizes and its extra specs."""
    pinned = flavor.extra_specs.get('hw:cpu_policy') == 'dedicated'
    return [
        flavor.name,
        f'{flavor.vcpus} {"PCPU" if pinned else "VCPU"}',
        f'{flavor.memory_mb} MiB',
        *([f'{flavor.disk_gb} GiB'] if flavor.disk_gb else []),
        *flavor.sorted_specs,
    ]


def _members(group: GroupSummary) -> str:
    return f'{"/".join(group.policies)}, {counted(group.members, "member")}'


def _servers(explained: Explanation, style: Style) -> Iterator[str]:
    """Yield where the servers of a request for several are."""
    total = explained.servers_total
    if total < 2:
        return
    hosts = Counter(server.host for server in explained.servers if server.host)
    most = hosts.most_common(None if style.is_long else MOST_SERVERS)
    more = len(hosts) - len(most)
    placed = [f'{host} {number}' for host, number in most]
    placed += [counted(more, 'more host')] if more else []
    index = explained.index
    yield from style.packed(
        'Servers',
        [
            f'{total}: {", ".join(placed)}' if placed else f'{total}',
            '' if index is None else f'below: server {index} (--index)',
        ],
    )


def _compared(explained: Explanation, style: Style) -> Iterator[str]:
    """Yield what nova chose for each server, where a shadow compared that."""
    found = explained.shadow or ()
    most = len(found) if style.is_long else MOST_SERVERS
    for each in found[:most]:
        of = f'server {style.uuid(each.server)}: ' if len(found) > 1 else ''
        yield from style.labelled('Nova', f'{of}{shadow.choice(each.nova)}')
        if said := shadow.comparison(each):
            yield from style.labelled('', said)
    if len(found) > most:
        yield _label('', f'{counted(len(found) - most, "more server")} (--long)')


def notes(explained: Explanation) -> dict[str, str]:
    """Return the remarks on stages beside their reasons, by their names."""
    if explained.placement is not None:
        seconds = explained.placement.age_s
        late = f'{-seconds:.0f} s later'
        return {
            PLACEMENT: late if seconds < 0 else f'copy of placement {seconds:.0f} s old'
        }
    if not explained.candidates:
        return {}
    last = explained.last_query
    limit = f' at {last.limit}' if last.limit else ''
    said = [
        f'offered {explained.candidates}',
        f'cut{limit}' if explained.is_cut else 'not cut',
        *(['further ones were asked for'] if explained.further else []),
        *(['of the copy'] if last.copied else []),
        *(['placement gives no reasons'] if explained.blocker else []),
    ]
    return {PLACEMENT: ', '.join(said)}


def _shown_notes(explained: Explanation) -> dict[str, str]:
    """Return the notes unless placement held nothing back."""
    has_lost = any(s.name == PLACEMENT and s.reasons for s in explained.stages)
    is_told = has_lost or explained.is_cut or explained.placement is not None
    return notes(explained) if is_told else {}


def _ended(explained: Explanation, style: Style) -> Iterator[str]:
    """Yield what ended the request, and the cells that it could not look at."""
    yield from style.labelled('Blocked', f'by {causes.blocked(explained)}', BOLD)
    if explained.code != Code.CELL_LEFT_OUT:
        yield from _cells(explained, style)


def _remedies(explained: Explanation, style: Style) -> Iterator[str]:
    """Yield what would have to change."""
    for number, line in enumerate(causes.remedies(explained)):
        yield from style.labelled('' if number else 'Remedy', line)


def _cells(explained: Explanation, style: Style) -> Iterator[str]:
    """Yield the cells that were unavailable."""
    for text in unavailable_cells(explained):
        yield from style.labelled('Cells', text)


def unavailable_cells(explained: Explanation) -> Iterator[str]:
    """Yield a sentence for each cell that was unavailable."""
    for cell in explained.cells_left_out:
        age = explained.cell_ages_s.get(cell)
        read = f' (last read {age:.0f} s before)' if age is not None else ''
        yield f'{cell} was unavailable: its hosts were not looked at{read}'


def _claims_and_timing(explained: Explanation, style: Style) -> Iterator[str]:
    """Yield claims, why it was decided again, notes, and how long it took."""
    made = explained.claims
    if any(claim.outcome != Outcome.CLAIMED for claim in made) or len(made) > 1:
        said = [' '.join(map(str, row)).strip() for row in claims(explained).rows]
        yield from style.packed('Claims', said, SEPARATOR)
    if rounds := explained.rounds:
        reasons = [f'{text_of(why)} ({times})' for why, times in rounds.items()]
        times = counted(1 + sum(rounds.values()), 'time')
        yield from style.labelled('Decided', f'{times}: {", ".join(reasons)}')
    for note in explained.notes:
        yield from style.labelled('Note', note)
    if took := timings(explained):
        said = [f'{name} {ms:.0f}' for name, ms in took.items()]
        yield from style.labelled('Took', f'{SEPARATOR.join(said)} ms')


def timings(explained: Explanation) -> dict[str, float]:
    """Return the milliseconds of each stage of the request, in their order."""
    took = explained.stages_ms
    names = [name for name in STAGES if name in took]
    names += sorted(name for name in took if name not in STAGES)
    return {name: took[name] or 0.0 for name in names}


def claims(explained: Explanation) -> Table:
    """Return the claims in placement, and how many more there were."""
    rows = [
        (
            Fact(each.host, 'host')
            if each.host
            else Fact(counted(each.servers, 'server')),
            Fact(each.outcome, note=each.text or ''),
            Fact(duration(each.ms)),
        )
        for each in explained.claims
    ]
    if (more := explained.claims_total - len(rows)) > 0:
        rows.append((Fact(f'{more} more'), Fact(''), Fact('')))
    return table(('Host', 'Outcome', 'Took'), rows)


def _hosts(hosts: Mapping[str, str]) -> Iterator[str]:
    """Yield each host and the stage that took it."""
    yield 'Every host'
    width = max(map(len, hosts), default=0)
    for host, outcome in sorted(hosts.items()):
        yield f'  {host:<{width}}  {outcome}'


def _then(host: HostOutcome) -> str:
    """Return in words what became of a host."""
    outcome, reasons = host.outcome, host.reasons
    if outcome == PASSED_ALL:
        return _passed(host)
    if outcome is None:
        kept = 'The record does not say what became of it.'
        return 'it was selected.' if host.servers else kept
    if outcome == WAS_NOT_NAMED:
        return 'left out: the request names other hosts.'
    name = OUTCOMES[outcome] if outcome == PLACEMENT else outcome
    if not reasons:
        return f'{name}.'
    if not host.is_exact:
        others = [replace(reason, example='') for reason in reasons]
        return f'{name}: one of {funnel.of_reasons(others)}'
    return f'{name}: {_reason(reasons[0])}'


def _passed(host: HostOutcome) -> str:
    """Return the rank of a host that passed all filters, and its claims."""
    place = f'rank {host.rank} of {host.passed}' if host.rank else 'not among the best'
    role = 'an alternate' if host.is_alternate else 'not selected'
    if host.servers:
        role = 'selected'
    said = [f'{c.host} {c.outcome} {c.text}'.strip() for c in host.claims]
    text = f' Claims: {SEPARATOR.join(said)}.' if said else ''
    return f'passed all filters, {place}: {role}.{text}'


def _reason(reason: StageReason) -> str:
    """Return the reason that one host had."""
    if reason.code == Code.NOT_ASKED and reason.text and not reason.what:
        return f'{reason.text}.'
    return f'{reason.name}{f": {reason.text}" if reason.text else ""}'

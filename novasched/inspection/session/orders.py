# SPDX-License-Identifier: Apache-2.0
"""Orders: what commands and the console are asked for.

Each field of an order is an option of a command and a parameter of an address. A field
with a label is in a form, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from novasched import errors
from novasched.runtime import times

if TYPE_CHECKING:
    from novasched.decisions.reading import Criteria

RESULTS = ('scheduled', 'unschedulable', 'error')
YES = 'yes'
LATEST = 1 << 60
"""A time that no log has, in microseconds since 1970."""
POLICIES = ('affinity', 'anti-affinity', 'soft-affinity', 'soft-anti-affinity')
GROUPINGS = ('zone', 'aggregate', 'cell', 'host')
STATES = ENABLED, DISABLED, DOWN = ('enabled', 'disabled', 'down')
DEFAULT_OWNER = 'admin'
"""The project and the user that a command asks for, if nothing names others."""
WHAT = 'what'
"""Options that say what is asked for: a command needs one of them."""
MOST_SEEDS = 1 << 64
MOST_SERVERS = 1000
PAGE, MOST_ROWS, MOST_PAGES = 50, 500, 10**6


@dataclass(frozen=True)
class OrderField:
    """How a field of an order is given."""

    flag: str = ''  # '' if no command has it; without dashes it is no option
    help: str = ''
    metavar: str | None = None
    choices: Sequence[str] = ()
    bounds: tuple[int, int] = (1, MOST_SERVERS)  # of a number in an address
    nargs: str | None = None
    one_of: str = ''  # of the options with this word one is given
    repeats: bool = True  # it may stand beside --like
    const: str = ''  # of an option without a value
    is_time: bool = False
    variable: str = ''  # of the environment: a command takes it for the default
    label: str = ''  # in a form
    hint: str = ''  # in an empty field of a form


def option(default: Any = '', flag: str = '', help: str = '', **more: Any) -> Any:
    """Return a field of an order."""
    said = OrderField(flag, help, **more)
    return field(default=default, metadata={'option': said})


def _part(default: Any, flag: str, help: str, **more: Any) -> Any:
    """Return a field that says a part of what --like says."""
    return option(default, flag, help, repeats=False, **more)


def _owner(who: str) -> Any:
    variable = f'OS_{who.upper()}_ID'
    help = f'the {who} that asks (default: {variable}, else {DEFAULT_OWNER})'
    return option('', f'--{who}-id', help, metavar='ID', variable=variable)


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The project and the user that ask."""

    project_id: str = _owner('project')
    user_id: str = _owner('user')


@dataclass(frozen=True, kw_only=True)
class WhatIfOrder:
    """A question about a cloud as it is, or as it would be after changes."""

    what_if: tuple[str, ...] = option(
        (),
        '--what-if',
        'answer as if the cloud were another; may be repeated: disable, enable or '
        'remove HOST; add N like HOST; trait HOST +T or -T; aggregate A +HOST or '
        '-HOST; property A key=value; ratio CLASS=NUMBER [A|HOST]; option '
        'GROUP.NAME=VALUE. HOST may be a pattern such as rack1-*',
        metavar='CHANGE',
        label='What if, one change a line',
        hint='add 2 like cmp-044',
    )


@dataclass(frozen=True, kw_only=True)
class DryOrder(WhatIfOrder):
    """A dry run that is asked for."""

    seed: int | None = option(
        None,
        '--seed',
        'random seed, to repeat an earlier plan',
        metavar='N',
        bounds=(0, MOST_SEEDS),
    )


@dataclass(frozen=True, kw_only=True)
class BootOrder(Owner, DryOrder):
    """New servers that are asked for, by their flavor or like others."""

    flavor: str = option(
        '',
        '--flavor',
        'one of the API database or of --flavor-file, or one in full, such as '
        'vcpus=2,ram=2048,disk=20,hw:cpu_policy=dedicated',
        metavar='FLAVOR',
        one_of=WHAT,
        repeats=False,
        label='Flavor',
        hint='a name, or vcpus=2,ram=2048',
    )
    like: str = option(
        '',
        '--like',
        'as the decision of this id was asked for, or this server',
        metavar='DECISION|SERVER',
        one_of=WHAT,
    )
    image: str = _part(
        '',
        '--image',
        'an image of --image-file, or properties, such as hw_cpu_policy=dedicated '
        '(default: one without properties)',
        metavar='IMAGE',
        label='Image',
        hint='properties, if any',
    )
    boot_from_volume: bool = _part(
        False, '--boot-from-volume', 'the root disk is a volume'
    )
    zone: str = _part(
        '',
        '--availability-zone',
        'where they go; a host is forced, whatever its filters say',
        metavar='ZONE[:HOST[:NODE]]',
        label='Zone',
        hint='any',
    )
    count: int = option(
        1, '--count', 'how many (default: 1)', metavar='N', label='How many'
    )
    hints: tuple[str, ...] = _part(
        (),
        '--hint',
        'a scheduler hint; may be repeated, also with one key',
        metavar='KEY=VALUE',
        label='Hints, one a line',
        hint='key=value',
    )
    group: str = _part(
        '',
        '--group',
        'the server group they join, by name or uuid',
        metavar='NAME',
        one_of='group',
    )
    policy: str = _part(
        '',
        '--policy',
        'as a new server group of this policy',
        choices=POLICIES,
        one_of='group',
    )

    def check(self) -> None:
        """Raise errors.OptionError if it is not said what is asked for, or twice."""
        parts = [
            said.flag
            for name, default, said in options(self)
            if not said.repeats and getattr(self, name) != default
        ]
        if self.like and parts:
            problem = f'the request is known, and {parts[0]} is part of it'
            remedy = f'Leave one out: {", ".join(parts)}'
            raise errors.OptionError('--like', problem, remedy)
        if self.group and self.policy:
            problem = 'it does not go with --group'
            raise errors.OptionError('--policy', problem, 'Leave one out')
        if not self.like and not self.flavor:
            problem = 'it is not said what is to be planned'
            remedy = 'Give its name, or vcpus=2,ram=2048,disk=20'
            raise errors.OptionError('--flavor', problem, remedy)


@dataclass(frozen=True, kw_only=True)
class AnyPlanOrder(DryOrder):
    """A plan that is asked for. ``fresh``: of nothing that was read before."""

    explain: bool = option(
        False, '--explain', 'also show how each was decided, as explain does'
    )
    fresh: bool = option(False)


@dataclass(frozen=True, kw_only=True)
class PlanOrder(BootOrder, AnyPlanOrder):
    """A plan of new servers."""

    host: str = option('', '--host', 'the host where they go, if its filters agree')


def _evacuate() -> Any:
    return option(False, '--evacuate', 'the hosts that they leave are down')


@dataclass(frozen=True, kw_only=True)
class MoveOrder(AnyPlanOrder):
    """A plan of servers that move."""

    servers: tuple[str, ...] = option(
        (), 'SERVER', 'names or uuids of servers', nargs='+'
    )
    to: str = option('', '--to', 'the host where they go', metavar='HOST')
    flavor: str = option('', '--flavor', 'resize them; see plan boot', metavar='FLAVOR')
    evacuate: bool = _evacuate()


@dataclass(frozen=True, kw_only=True)
class DrainOrder(AnyPlanOrder):
    """A plan of all servers of some hosts."""

    hosts: tuple[str, ...] = option(
        (), 'HOST', 'names of hosts', nargs='*', one_of=WHAT
    )
    aggregate: str = option(
        '', '--aggregate', 'all hosts of this aggregate', metavar='NAME', one_of=WHAT
    )
    zone: str = option('', '--zone', 'all hosts of this availability zone', one_of=WHAT)
    cell: str = option(
        '', '--cell', 'all hosts of this cell', metavar='NAME', one_of=WHAT
    )
    one_of: bool = option(
        False, '--one-of', 'each of the hosts alone, as when any one of them fails'
    )
    evacuate: bool = _evacuate()


@dataclass(frozen=True, kw_only=True)
class WhyNotOrder(BootOrder):
    """Conditions of a request that are asked about a host."""

    host: str = option('', 'HOST', 'name of a compute host')
    server: str = option(
        '',
        '--server',
        'to move this server, by name or uuid',
        metavar='SERVER',
        one_of=WHAT,
    )


@dataclass(frozen=True)
class CapacityOrder(WhatIfOrder):
    """Capacity that is asked for; without flavors, of those that servers have."""

    flavors: tuple[str, ...] = option(
        (),
        '--flavor',
        'a name, an id, or in full: vcpus=2,ram=2048,disk=20; may be repeated '
        '(default: the flavors in use, 50 at most)',
        metavar='FLAVOR',
    )
    by: str = option('', '--by', 'group by', choices=GROUPINGS)
    fresh: bool = option(
        False, '--fresh', 'ask placement now; use nothing read in the last 5 minutes'
    )


@dataclass(frozen=True)
class ShadowOrder:
    """A report of a shadow that is asked for."""

    since: str = option(
        '24h',
        '--since',
        'what was compared from a time: 90m or 7d ago, or 2026-11-22T12:00Z '
        '(default: 24h)',
        metavar='TIME',
        label='Since',
        hint='24h',
    )

    def since_us(self, now_s: float) -> int:
        """Return the time in us since 1970. Raises errors.OptionError."""
        return _moment('--since', self.since, now_s)


def _moment(flag: str, text: str, now_s: float) -> int:
    """Return a time in us since 1970. Raises errors.OptionError."""
    try:
        found = times.moment(text, now_s)
    except (ValueError, OverflowError):
        found = LATEST
    if not 0 <= found < LATEST:
        said, remedy = f'{text!r} is no time', f'It is {times.EXAMPLES}'
        raise errors.OptionError(flag, said, remedy)
    return found


_PLUGIN = 'the filter or prefilter that ended requests'
_CODE = 'the most frequent reason, such as not-enough-ram'
_BLOCKER = 'what ended requests, such as filters or no-candidates'
_ZONE = 'an availability zone that was asked for'
_SERVER = 'a server, by its uuid or the beginning of it'


def _criterion(name: str, metavar: str, what: str, hint: str = '', **more: Any) -> Any:
    said = {'label': name.capitalize(), 'metavar': metavar, 'hint': hint, **more}
    return option('', f'--{name}', f'decisions of {what}', **said)


def _time(name: str, word: str, hint: str) -> Any:
    help = f'those {word} a time: 90m or 7d ago, or 2026-11-22T12:00Z'
    label, more = name.capitalize(), {'metavar': 'TIME', 'is_time': True}
    return option('', f'--{name}', help, label=label, hint=hint, **more)


@dataclass(frozen=True, kw_only=True)
class DecisionsOrder:
    """Criteria that decisions meet; '' is none."""

    result: str = option(
        '', '--result', 'decisions that ended so', choices=RESULTS, label='Result'
    )
    flavor: str = _criterion('flavor', 'NAME', 'a flavor')
    plugin: str = _criterion(
        'plugin', 'NAME', _PLUGIN, 'such as RAMFilter', label='Filter'
    )
    code: str = _criterion(
        'code', 'CODE', _CODE, 'such as not-enough-ram', label='Reason'
    )
    blocker: str = _criterion(
        'blocker', 'WORD', _BLOCKER, 'such as no-candidates', label='Ended by'
    )
    host: str = _criterion(
        'host', 'HOST', 'a host that was picked', label='Chosen host'
    )
    zone: str = _criterion('zone', 'ZONE', _ZONE, label='Zone asked for')
    project: str = _criterion('project', 'ID', 'a project')
    server: str = _criterion('server', 'UUID', _SERVER, 'uuid')
    request: str = _criterion(
        'request', 'ID', 'a request, or a global request', 'req-…'
    )
    since: str = _time('since', 'from', '90m, 7d or a time')
    until: str = _time('until', 'before', 'a time, or so long ago')
    differs: str = option(
        '',
        '--differs',
        'those with a server for which nova chose otherwise, as a shadow saw',
        choices=(YES,),
        const=YES,
        label='Nova chose otherwise',
    )

    def criteria(self, now_s: float) -> Criteria:
        """Return the criteria for a log. Raises errors.OptionError for a time that is
        none."""
        from novasched.decisions.reading import Criteria

        given: dict[str, Any] = {n: text for n, text in vars(self).items() if text}
        for name, _, said in options(self):
            if said.is_time and name in given:
                given[name] = _moment(said.flag, given[name], now_s)
        return Criteria(**{**given, 'differs': bool(self.differs) or None})


@dataclass(frozen=True, kw_only=True)
class HostsOrder:
    """A page of hosts that meet criteria; '' is none. ``name`` is a part of the name, a
    pattern such as rack1-*, or several names with commas between them."""

    name: str = option(label='Name', hint='part of it')
    state: str = option(label='State', choices=STATES)
    cell: str = option(label='Cell')
    zone: str = option(label='Zone')
    aggregate: str = option(label='Aggregate')
    flavor: str = option(label='Slots of')  # with its slots
    page: int = option(1, bounds=(1, MOST_PAGES))
    limit: int = option(PAGE, bounds=(1, MOST_ROWS))


def options(order: Any) -> Iterator[tuple[str, Any, OrderField]]:
    """Yield the name, the default and the option of each field of an order."""
    for each in dataclasses.fields(order):
        yield each.name, each.default, each.metadata['option']

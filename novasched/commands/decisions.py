# SPDX-License-Identifier: Apache-2.0
"""``novasched decisions list`` and ``decisions count``."""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from novasched import errors, printable
from novasched.commands.base import (
    IN_PART,
    Rows,
    TableCommand,
    add_local,
    add_options,
    order_of,
    positive,
)
from novasched.commands.console_client import ConsoleCommand, parameters
from novasched.inspection.session.orders import DecisionsOrder
from novasched.inspection.texts.lines import SHOWN_OF_UUID
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.times import SECONDS, time_of
from novasched.runtime.typed_json import of_json, to_json

if TYPE_CHECKING:
    from novasched.decisions.counting import Count
    from novasched.decisions.listing import CountPage, DecisionPage, ListedDecision
    from novasched.decisions.reading import Criteria
    from novasched.inspection.questions.all_decisions import AllDecisions

Page = TypeVar('Page', 'DecisionPage', 'CountPage')

LIMIT = 50
POLL_S = 1.0
MOST_OF_CONSOLE = 500
"""Decisions that a console lists at a time."""
BY = (
    *('plugin', 'blocker', 'code', 'flavor', 'zone', 'project', 'host', 'result'),
    *('day', 'hour'),
)
SHORT = ('Time', 'Server', 'Flavor', 'Result', 'Host or why', 'Took')
LONG = (
    *('ID', 'Time', 'Server', 'Flavor', 'Result', 'Host', 'Blocker', 'Plugin', 'Code'),
    *('Took', 'Project', 'Request', 'Worker'),
)
COUNTS = ('value', 'count', 'share', 'most_often')
WIDTHS = (14, 11, 13, 9, 18, 7)
"""Of the columns of --follow, which cannot know what comes."""
_SHORT_TIME = '%m-%d %H:%M:%S'


class DecisionsCommand(ConsoleCommand, TableCommand):
    """A command on the decisions that meet criteria."""

    ONLY_HERE = MappingProxyType({'local': '--local'})

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_options(parser, DecisionsOrder)
        add_local(self.local_options(parser))
        return parser

    def criteria(self, parsed_args: argparse.Namespace) -> Criteria:
        order = order_of(DecisionsOrder, parsed_args)
        return order.criteria(SYSTEM_CLOCK.time())

    def listed_by_console(
        self,
        parsed_args: argparse.Namespace,
        path: str,
        kind: type[Page],
        *given: tuple[str, str],
    ) -> Page:
        """Return the answer of a console on the decisions that meet the criteria."""
        asked = [*given, *parameters(order_of(DecisionsOrder, parsed_args))]
        before = [name for name, _ in asked if name != 'differs']
        said = self.of_console(parsed_args, path, asked, before)
        if said is None:
            raise errors.DecisionNotFound(parsed_args.before)
        answer = of_json(kind, said)
        if self.warn_of(unanswered=answer.unanswered):
            self.code = IN_PART
        return answer


class ListDecisions(DecisionsCommand):
    """List the decisions of all schedulers, the newest first.

    A table has the most important columns; --long has all. Other formats have all that
    is kept of each but its body, which novasched explain shows.

    Exit codes: 0 answered, 1 error, 2 usage, 3 there is no decision --before, 4 a
    scheduler did not answer, and may have more.
    """

    ONLY_HERE = MappingProxyType({**DecisionsCommand.ONLY_HERE, 'follow': '--follow'})
    pause: Callable[[float], None] = staticmethod(time.sleep)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--limit',
            metavar='N',
            type=positive,
            default=LIMIT,
            help=f'the newest N only (default: {LIMIT})',
        )
        parser.add_argument(
            '--before', metavar='ID', help='those older than this decision'
        )
        self.local_options(parser).add_argument(
            '--follow',
            action='store_true',
            help='then print new ones as they come, until Ctrl-C; with -f json, an '
            'object a line',
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        if not parsed_args.follow:
            return super().run(parsed_args)
        is_list = parsed_args.before or parsed_args.console
        if parsed_args.formatter not in ('table', 'json') or is_list:
            raise errors.OptionError(
                '--follow',
                'it goes with -f table and -f json, without --before and --console',
                'Leave the other out',
            )
        with contextlib.closing(self.sources(parsed_args.local)) as found:
            self.follow(found, parsed_args)
        return self.code

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        from novasched.decisions.listing import ListedDecision, listed

        if parsed_args.console:
            found = self._of_console(parsed_args)
        else:
            with contextlib.closing(self.sources(parsed_args.local)) as sources:
                heads = sources.find(
                    self.criteria(parsed_args), parsed_args.limit, parsed_args.before
                )
                found = listed(heads, sources.servers_of([head.id for head in heads]))
            self.say_what_is_missing(sources)
        if parsed_args.formatter != 'table':
            names = tuple(field.name for field in fields(ListedDecision))
            return names, [tuple(to_json(each).values()) for each in found]
        columns = SHORT if self.is_short(parsed_args) else LONG
        return columns, [_shown(each, columns) for each in found]

    def _of_console(self, parsed_args: argparse.Namespace) -> list[ListedDecision]:
        """Return the decisions that a console lists, page by page."""
        from novasched.decisions.listing import DecisionPage

        found: list[ListedDecision] = []
        before = parsed_args.before
        while True:
            limit = min(parsed_args.limit - len(found), MOST_OF_CONSOLE)
            given = [('limit', str(limit)), *([('before', before)] if before else ())]
            page = self.listed_by_console(
                parsed_args, '/decisions', DecisionPage, *given
            )
            found += page.decisions
            before = page.next
            if before is None or len(found) >= parsed_args.limit:
                return found

    def follow(self, found: AllDecisions, parsed_args: argparse.Namespace) -> None:
        """Print decisions as they come, the oldest first."""
        from novasched.decisions.listing import listed

        criteria = self.criteria(parsed_args)
        mark = found.end()
        heads = found.find(criteria, parsed_args.limit)[::-1]
        self.say_what_is_missing(found)
        printed, missing = {head.id for head in heads}, found.warnings
        if parsed_args.formatter == 'table':
            self._print([_line(SHORT)])
        while True:
            servers = found.servers_of([head.id for head in heads])
            self._print(_lines(listed(heads, servers), parsed_args.formatter))
            self.pause(POLL_S)
            heads, mark = found.newer(criteria, mark)
            heads = [head for head in heads if head.id not in printed]
            if found.warnings != missing:
                missing = found.warnings
                self.say_what_is_missing(found)

    def _print(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.app.stdout.write(f'{line}\n')
        self.app.stdout.flush()


def _shown(each: ListedDecision, columns: Sequence[str]) -> list[Any]:
    """Return columns for people: of SHORT, in short words, or of LONG."""
    is_short, is_refused = columns is SHORT, each.result == 'unschedulable'
    server = each.server[: SHOWN_OF_UUID if is_short else None]
    values = {
        'ID': each.id,
        'Time': time_of(each.at, _SHORT_TIME if is_short else SECONDS),
        'Server': f'{server} +{each.servers - 1}' if each.servers > 1 else server,
        'Result': 'no host' if is_short and is_refused else each.result,
        'Flavor': each.flavor,
        'Blocker': each.blocker,
        'Plugin': each.plugin,
        'Took': f'{each.took_us / 1000:.0f} ms',
        'Host': ', '.join(each.picked),
        'Host or why': next(iter(each.picked), '') or each.plugin or each.blocker,
        'Project': each.project_id,
        'Request': each.request_id,
        'Worker': each.worker,
        'Code': each.code,
    }
    return [values[name] or None for name in columns]


def _lines(found: Iterable[ListedDecision], formatter: str) -> Iterator[str]:
    for each in found:
        if formatter == 'json':
            yield json.dumps(to_json(each))
        else:
            yield _line([value or '-' for value in _shown(each, SHORT)])


def _line(values: Sequence[str]) -> str:
    shown = map(printable.line, values)
    padded = (f'{text:{width}}' for text, width in zip(shown, WIDTHS, strict=True))
    return '  '.join(padded).rstrip()


class CountDecisions(DecisionsCommand):
    """Count the decisions of all schedulers by what they have in common.

    By plugin, blocker or code, scheduled requests are left out. By host, a decision
    counts for each of its hosts. Most often is the most frequent reason, or result.

    Exit codes: 0 answered, 1 error, 2 usage, 4 a scheduler did not answer, and may have
    more.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--by',
            choices=BY,
            default=BY[0],
            help=f'what to count them by (default: {BY[0]})',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        counts: Sequence[Count]
        if parsed_args.console:
            from novasched.decisions.listing import CountPage

            given = 'by', parsed_args.by
            counts = self.listed_by_console(
                parsed_args, '/decisions/count', CountPage, given
            ).rows
        else:
            with contextlib.closing(self.sources(parsed_args.local)) as found:
                counts = found.count(parsed_args.by, self.criteria(parsed_args))
            self.say_what_is_missing(found)
        if parsed_args.formatter != 'table':
            rows = [
                (each.value, each.count, round(each.share, 4), each.most_often)
                for each in counts
            ]
            return COUNTS, rows
        columns = (parsed_args.by.capitalize(), 'Count', 'Share', 'Most often')
        return columns, [
            (each.value or '-', each.count, f'{each.share:.1%}', each.most_often)
            for each in counts
        ]

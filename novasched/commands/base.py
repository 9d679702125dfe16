# SPDX-License-Identifier: Apache-2.0
"""Base classes of the commands, and their exit codes."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, TypeVar

from cliff.command import Command

from novasched import errors, printable
from novasched.inspection.session import orders
from novasched.inspection.texts.lines import Style
from novasched.process.command_line import CommandLine, PrintableLister
from novasched.runtime import times
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.typed_json import to_json

if TYPE_CHECKING:
    from oslo_config import cfg

    from novasched.inspection.questions.all_decisions import AllDecisions

ANSWERED, FAILED, USAGE, ANSWER_IS_NO, IN_PART = range(5)
"""Exit codes for an answer, an error, wrong arguments, an answer of no, and an answer
in part, which the rest could change."""

FORMAT_VERSION = 1
"""The number "v" of the JSON of all reports."""
SERVICE = 'nova-scheduler'
PIPE_WIDTH = 120
LEAST_WIDTH = 8
QUIET_S = 2.0
"""Seconds that something may take before its progress is shown."""
WHOLE = ('ID', 'Time', 'Server', 'Result')
"""Columns of which a part says little."""

Answer = Mapping[str, Any]
Order = TypeVar('Order')
Rows = tuple[Sequence[str], Iterable[Sequence[Any]]]
"""The names of columns, and rows."""


class ConfiguredCommand(Command):
    """A command that reads the configuration of nova; ``code`` is its exit code."""

    app: Any
    code = ANSWERED

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        # The program itself has read them, wherever they stand.
        CommandLine.add_configurations(
            self.local_options(parser),
            'read this configuration {}, as novasched-scheduler does; may be repeated '
            '(default: those of nova)',
        )
        return parser

    @property
    def is_of_openstack(self) -> bool:
        """True if the program is openstack, which reads no configuration of nova."""
        return hasattr(self.app, 'client_manager')

    def local_options(self, parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
        """Return the parser for options that concern this machine; openstack drops
        them."""
        return argparse.ArgumentParser() if self.is_of_openstack else parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command; return its exit code."""
        try:
            return super().run(parsed_args)
        except errors.DecisionNotFound as problem:
            self.say(str(problem))
            return IN_PART if problem.unanswered else ANSWER_IS_NO

    def configuration_arguments(self) -> list[str]:
        """Return the arguments that name the configuration, as the daemon takes them;
        [] for nova's."""
        options = self.app.options
        return [
            *(f'--config-file={path}' for path in options.config_file),
            *(f'--config-dir={path}' for path in options.config_dir),
        ]

    def configuration(self, opts: Mapping[str, Sequence[cfg.Opt]]) -> cfg.ConfigOpts:
        """Read the configuration with these options alone, by group.

        Raises errors.OptionError and oslo_config.cfg.Error.
        """
        from oslo_config import cfg

        from novasched.process import configuration

        conf = cfg.ConfigOpts()
        configuration.register(conf, opts.items())
        arguments = self.configuration_arguments()
        configuration.read(conf, arguments, SERVICE, prog=self.app.NAME)
        return conf

    def sources(self, local_only: bool) -> AllDecisions:
        """Return the decisions of all schedulers, or of this machine alone; close them.

        Raises errors.OptionError where this machine has none, and no other is to be
        asked.
        """
        from novasched.commands import sources

        conf = self.configuration(sources.OPTIONS)
        return sources.sources(conf, local_only, self.warn)

    def say_what_is_missing(self, found: AllDecisions) -> None:
        """Warn of schedulers that did not answer."""
        for line in found.warnings:
            self.warn(line)
        if found.unanswered:
            self.code = IN_PART

    def warn_of(
        self,
        cells: Iterable[str] = (),
        stopped: Collection[str] = (),
        unanswered: Iterable[str] | None = None,
    ) -> bool:
        """Warn of cells and schedulers that are not in the answer; return whether there
        are any. See inspection.texts.missing."""
        from novasched.inspection.texts.missing import missing_parts

        lines = list(missing_parts(unanswered, (), cells, stopped))
        for line in lines:
            self.warn(line)
        return bool(lines)

    def say(self, line: str) -> None:
        """Say a line beside the output."""
        self.app.stderr.write(f'{printable.line(line)}\n')

    def warn(self, line: str) -> None:
        """Say beside the output what is missing in it."""
        self.say(f'warning: {line}')

    def progress(self, text: str) -> None:
        """Show what is being done, on a terminal, once it takes long."""
        stderr = self.app.stderr
        self._since = getattr(self, '_since', SYSTEM_CLOCK.monotonic())
        if stderr.isatty() and SYSTEM_CLOCK.monotonic() - self._since > QUIET_S:
            shown = printable.line(text)
            printable.unescaped(stderr).write(f'\r{shown} ...\033[K')
            stderr.flush()
            self._is_shown = True

    def end_progress(self) -> None:
        """Take the line of the progress away."""
        if getattr(self, '_is_shown', False):
            printable.unescaped(self.app.stderr).write('\r\033[K')


class TableCommand(ConfiguredCommand, PrintableLister):
    """A command that ends with a table, as text, JSON, YAML, CSV or values."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--long',
            action='store_true',
            help='print a table with all columns, as wide as it gets',
        )
        parser.set_defaults(print_empty=True)
        return parser

    def is_short(self, parsed_args: argparse.Namespace) -> bool:
        """Return whether only the most important columns are shown."""
        is_table = parsed_args.formatter == 'table'
        return is_table and not parsed_args.long and not parsed_args.columns

    def run(self, parsed_args: argparse.Namespace) -> int:
        return super().run(parsed_args) or self.code

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
    ) -> int:
        """Print the rows; a table is cut to the width of the terminal.

        What is not there is a dash in it.
        """
        if parsed_args.formatter == 'table':
            rows = [
                ['-' if v is None else printable.lines(str(v)) for v in row]
                for row in data
            ]
            width = parsed_args.max_width or _width_of(self.app.stdout)
            if width > 0 and not parsed_args.long:
                shown = parsed_args.columns or column_names
                rows = fitted(column_names, rows, width, frozenset(shown))
            data = rows
        return super().produce_output(parsed_args, column_names, data)


class ReportCommand(ConfiguredCommand):
    """A command that ends with a report, as text, JSON or YAML: override report() and
    text(), which has the arguments in ``parsed_args``."""

    parsed_args: argparse.Namespace

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '-f',
            '--format',
            dest='formatter',
            choices=['text', 'json', 'yaml'],
            default='text',
            help='how to print the answer (default: text)',
        )
        return parser

    def report(self, parsed_args: argparse.Namespace) -> Any:
        """Return the answer, a dataclass or a dict of JSON; set ``code``."""
        raise AssertionError('overridden by every report')

    def text(self, answer: Any, style: Style) -> str:
        """Return the answer for people."""
        raise AssertionError('overridden by every report')

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the report."""
        self.parsed_args = parsed_args
        report = self.report(parsed_args)
        answer = {'v': FORMAT_VERSION, **to_json(report)}
        out = self.app.stdout
        if parsed_args.formatter == 'json':
            import json

            text = json.dumps(answer, indent=2)
        elif parsed_args.formatter == 'yaml':
            import yaml  # type: ignore[import-untyped]

            text = yaml.safe_dump(answer, sort_keys=False)
        else:
            shown = printable.values(report)
            text = self.text(shown, self._style(parsed_args))
        out.write(text.rstrip('\n') + '\n')
        return self.code

    def _style(self, parsed_args: argparse.Namespace) -> Style:
        width = shutil.get_terminal_size().columns
        has_colour = self.app.stdout.isatty() and 'NO_COLOR' not in os.environ
        return Style(width, has_colour, getattr(parsed_args, 'long', False))


def add_local(parser: argparse.ArgumentParser) -> None:
    """Add the option that leaves other machines alone."""
    parser.add_argument(
        '--local', action='store_true', help='ask no scheduler of another machine'
    )


def add_options(parser: argparse.ArgumentParser, order: type[Any]) -> None:
    """Add the options of an order to a command."""
    groups: dict[str, argparse._ActionsContainer] = {}
    for name, default, said in orders.options(order):
        if not said.flag:
            continue
        to: argparse._ActionsContainer = parser
        if said.one_of:
            to = groups.get(said.one_of) or parser.add_mutually_exclusive_group(
                required=said.one_of == orders.WHAT
            )
            groups[said.one_of] = to
        given: dict[str, Any] = {'default': default, 'metavar': said.metavar}
        if not said.flag.startswith('-'):
            given = {'metavar': said.flag, 'nargs': said.nargs, 'default': []}
            to.add_argument(name, help=said.help, **given)
            continue
        if isinstance(default, bool):
            given = {'action': 'store_true'}
        elif isinstance(default, tuple):
            given |= {'action': 'append', 'default': []}
        elif said.const:
            given = {'default': default, 'action': 'store_const', 'const': said.const}
        elif said.choices:
            given |= {'choices': said.choices}
        elif said.is_time:
            given |= {'type': a_time, 'default': default or None}
        elif said.variable:
            given['default'] = os.environ.get(said.variable) or orders.DEFAULT_OWNER
        elif default is None:
            given['type'] = int
        elif isinstance(default, int):
            given['type'] = positive
        to.add_argument(said.flag, dest=name, help=said.help, **given)


def order_of(order: type[Order], parsed_args: argparse.Namespace, **more: Any) -> Order:
    """Return the order that arguments say; ``more`` are fields without an option."""
    given = {
        name: tuple(value) if isinstance(default, tuple) else value
        for name, default, said in orders.options(order)
        if said.flag and (value := getattr(parsed_args, name)) is not None
    }
    return order(**given, **more)


def add_owner(parser: argparse.ArgumentParser) -> None:
    """Add the options that say who asks."""
    add_options(parser, orders.Owner)


def add_flavor_file(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a file of flavors."""
    parser.add_argument(
        '--flavor-file', metavar='FILE', help='flavors, as TOML tables [[flavors]]'
    )


def a_time(text: str) -> str:
    """Return a text that is a time. Raises argparse.ArgumentTypeError."""
    try:
        times.moment(text, SYSTEM_CLOCK.time())
    except (ValueError, OverflowError) as problem:
        raise argparse.ArgumentTypeError(
            f'{text!r} is no time; it is {times.EXAMPLES}'
        ) from problem
    return text


def positive(text: str) -> int:
    """Return a number from 1 up. Raises argparse.ArgumentTypeError."""
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f'{text} is no number from 1 up')
    return number


def _width_of(stream: Any) -> int:
    """Return the width of a terminal, or the width of a table in a pipe or file."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or PIPE_WIDTH
    except (OSError, ValueError):
        return PIPE_WIDTH


def fitted(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    shown: AbstractSet[str],
) -> list[list[str]]:
    """Return the rows of a table in one line each, cut to fit into a width.

    The widest column is cut first, those in WHOLE after all others; none to less than
    LEAST_WIDTH or its name. Only the columns that are shown count.
    """
    lines = [[' '.join(value.split()) for value in row] for row in rows]
    widths = [
        max([len(name), *(len(line[place]) for line in lines)]) if name in shown else 0
        for place, name in enumerate(names)
    ]
    over = sum(widths) + 3 * sum(name in shown for name in names) + 1 - width
    for _ in range(over):
        wide = [
            place
            for place, name in enumerate(names)
            if widths[place] > max(LEAST_WIDTH, len(name))
        ]
        if not wide:
            break
        widest = max(wide, key=lambda place: (names[place] not in WHOLE, widths[place]))
        widths[widest] -= 1
    return [
        [
            text if not width or len(text) <= width else f'{text[: width - 1]}…'
            for text, width in zip(line, widths, strict=True)
        ]
        for line in lines
    ]

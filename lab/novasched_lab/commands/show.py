# SPDX-License-Identifier: Apache-2.0
"""``novasched show``."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cliff.columns import FormattableColumn
from cliff.show import ShowOne

from novasched_lab.commands.command import ServerCommand

if TYPE_CHECKING:
    from novasched_lab.api.details import Details


class Lines(FormattableColumn[Any]):
    """A list, of which people see one line each."""

    def human_readable(self) -> str:
        return '\n'.join(_line(each) for each in self._value) or '-'

    def machine_readable(self) -> Any:
        return self._value


def _line(entry: Any) -> str:
    """Return an entry in one line; a list in it gets a line per entry of its own."""
    if not isinstance(entry, dict):
        return str(entry)
    inner = [value for value in entry.values() if isinstance(value, list)]
    flat = (value for value in entry.values() if not isinstance(value, list))
    words = ' '.join(_word(value) for value in flat if value is not None)
    return '\n'.join([words, *(f'  {_line(each)}' for part in inner for each in part)])


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return ', '.join(f'{name} {amount}' for name, amount in value.items())
    return str(value)


class Show(ServerCommand, ShowOne):
    """Show all of a server: its fault, what it holds, what was done to it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument('name', help='the name or the uuid of the server')
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Any]]:
        """Return the fields of the server."""
        from novasched_lab.api.details import details

        with self.api() as api:
            found = details(api, self.context(parsed_args), parsed_args.name, self.warn)
        return self.dict2columns(_fields(found, parsed_args.formatter == 'table'))


def _fields(found: Details, for_people: bool) -> dict[str, Any]:
    server = found.server
    fields = {
        'id': server.uuid,
        'name': server.name,
        'status': server.status,
        'task': server.task,
        'cell': server.cell,
        'host': server.host,
        'node': found.node,
        'zone': server.zone,
        'flavor': found.flavor,
        'image': found.image,
        'group': found.group,
        'project_id': server.project_id,
        'created_at': _time(found.created_at),
        'launched_at': _time(found.launched_at),
        'fault': server.fault,
    }
    if for_people:
        fields = {name: '-' if v is None else v for name, v in fields.items()}
    return {
        **fields,
        'allocations': Lines(found.allocations),
        'moves': Lines(found.moves),
        'actions': Lines(found.actions),
    }


def _time(value: datetime.datetime | None) -> str | None:
    return None if value is None else value.isoformat(sep=' ')

# SPDX-License-Identifier: Apache-2.0
"""The JSON of a console, for commands where there is no database or decision log."""

from __future__ import annotations

import abc
import argparse
import os
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from novasched import errors, printable
from novasched.commands.base import ConfiguredCommand
from novasched.inspection.session.orders import options
from novasched.parsing import parse_json
from novasched.runtime.typed_json import of_json

if TYPE_CHECKING:
    from http.client import HTTPConnection

VARIABLE = 'NOVASCHED_CONSOLE'
TOKEN_VARIABLE = 'OS_TOKEN'  # noqa: S105 its name
API = '/api/v1'
WITHIN_S = 30.0
MOST_BYTES = 64 << 20
Given = Iterable[tuple[str, str]]
Report = TypeVar('Report')
PARAMETERS = 'Novasched-Parameters'
"""The header with the parameters that a console has read."""
BEFORE = frozenset(
    ('flavor', 'like', 'image', 'zone', 'count', 'hints', 'what_if', 'flavors', 'by')
)
"""What consoles read that do not say it."""


class Reply(NamedTuple):
    """The reply of a console to a request."""

    status: int
    body: bytes
    parameters: str | None
    """The parameters that the console has read, if it says so."""


class Console(abc.ABC):
    """A console that can be asked."""

    where: str
    option: str
    """The option that errors name."""
    remedy: str
    """What to do if the console accepts no token of ours."""

    @abc.abstractmethod
    def get(self, target: str) -> Reply:
        """Return the reply to GET. Raises errors.OptionError and
        errors.ConsoleFailed."""


class ConsoleCommand(ConfiguredCommand):
    """A command that may ask a console instead; ``ONLY_HERE`` are the options, by the
    name of the argument, that a console does not know.

    As a command of openstack it always asks the console of the service catalog.
    """

    ONLY_HERE: Mapping[str, str] = {}

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        if self.is_of_openstack:
            parser.set_defaults(console=True, **dict.fromkeys(self.ONLY_HERE))
            return parser
        parser.add_argument(
            '--console',
            metavar='URL|SOCKET',
            default=os.environ.get(VARIABLE) or None,
            help='ask this console, and read neither databases nor decision logs; a '
            f'token for it is read from {TOKEN_VARIABLE} (default: {VARIABLE})',
        )
        return parser

    def console(self, parsed_args: argparse.Namespace) -> Console:
        """Return the console to ask."""
        if self.is_of_openstack:
            console: Console = self.app.client_manager.scheduler
            return console
        return AddressedConsole(parsed_args.console)

    def of_console(
        self,
        parsed_args: argparse.Namespace,
        path: str,
        given: Given = (),
        known: Collection[str] | None = None,
    ) -> dict[str, Any] | None:
        """Return the answer of the console; None if it knows no such thing.
        ``known`` is as of ask().

        Raises errors.OptionError for what it does not take, and errors.ConsoleFailed.
        """
        for name, option in self.ONLY_HERE.items():
            if getattr(parsed_args, name):
                raise errors.OptionError(
                    '--console', f'it does not go with {option}', 'Leave one out'
                )
        return ask(self.console(parsed_args), path, given, known)

    def answered(
        self,
        parsed_args: argparse.Namespace,
        path: str,
        order: Any,
        kind: type[Report],
    ) -> Report:
        """Return the answer of the console to an order. Raises as of_console() does,
        and errors.OptionError if it knows no such thing."""
        answer = self.of_console(parsed_args, path, parameters(order), BEFORE)
        if answer is None:
            problem = 'it knows nothing of what is asked'
            option = self.console(parsed_args).option
            raise errors.OptionError(option, problem, 'Look at its pages')
        return of_json(kind, answer)


def parameters(order: Any) -> Given:
    """Yield the parameters of an address that asks for an order."""
    for name, default, _ in options(order):
        value = getattr(order, name)
        if value != default:
            values = value if isinstance(value, tuple) else [value]
            yield from ((name, str(int(v) if v is True else v)) for v in values)


def of_decision(id: str) -> str:
    """Return the address of a decision in a console."""
    return f'/decisions/{quote(id, safe="")}'


def of_host(name: str) -> str:
    """Return the address of a host in a console."""
    # Not all servers decode %2F; see PEP 3333.
    return f'/hosts/{quote(name)}'


def ask(
    console: Console,
    path: str,
    given: Given = (),
    known: Collection[str] | None = None,
) -> dict[str, Any] | None:
    """Return the JSON object that a console has at a path of its interface, if any.

    ``known`` are the parameters of a console that does not say which it reads, if that
    matters. Raises errors.OptionError for what it refuses or does not read, and
    errors.ConsoleFailed if it does not answer.
    """
    given = list(given)
    said = urlencode(given)
    status, body, reads = console.get(f'{API}{path}{"?" if said else ""}{said}')
    try:
        answer = parse_json(body)
        text = printable.line(str(answer.get('error', '')))
    except (ValueError, AttributeError):
        answer, text = None, ''
    if status == 200 and answer is not None:
        if known is not None:
            read = known if reads is None else reads.split(',')
            _check(console.option, given, read)
        return dict(answer)
    if status == 404 and text:
        return None
    if status == 400 and text:
        raise errors.OptionError(console.option, f'it answers: {text}', 'Correct it')
    where = console.where
    if status in (401, 403):
        why = text if status == 403 and text else console.remedy
        raise errors.ConsoleFailed(where, f'it refuses us (HTTP {status}): {why}')
    raise errors.ConsoleFailed(where, text or f'it answers HTTP {status}')


def _check(option: str, given: Given, known: Collection[str]) -> None:
    """Raise errors.OptionError for parameters that a console has passed over."""
    if unread := sorted({name for name, _ in given}.difference(known)):
        problem = f'it is of an older release, and does not know {", ".join(unread)}'
        raise errors.OptionError(option, problem, 'Upgrade it, or leave them out')


class AddressedConsole(Console):
    """The console at a URL, or at the path of a socket."""

    option = '--console'
    remedy = f'put a token that may look into {TOKEN_VARIABLE}'

    def __init__(self, where: str) -> None:
        self.where = where

    def get(self, target: str) -> Reply:
        import http.client

        from novasched.runtime import connections

        connection, prefix = _connection(self.where)
        headers = {'Accept': 'application/json'}
        if token := os.environ.get(TOKEN_VARIABLE):
            headers['X-Auth-Token'] = token
        try:
            connection.request('GET', f'{prefix}{target}', headers=headers)
            reply = connection.getresponse()
            body = reply.read(MOST_BYTES)
            return Reply(reply.status, body, reply.getheader(PARAMETERS))
        except (OSError, http.client.HTTPException) as problem:
            why = connections.reason(problem)
            raise errors.ConsoleFailed(self.where, why) from problem
        finally:
            connection.close()


def _connection(where: str) -> tuple[HTTPConnection, str]:
    """Return a connection that is not open yet, and what paths begin with."""
    import http.client
    import socket

    if '://' not in where:

        class OverSocket(http.client.HTTPConnection):
            def connect(self) -> None:
                self.sock = socket.socket(socket.AF_UNIX)
                self.sock.settimeout(WITHIN_S)
                self.sock.connect(where)

        return OverSocket('localhost', timeout=WITHIN_S), ''
    kinds = {'http': http.client.HTTPConnection, 'https': http.client.HTTPSConnection}
    try:
        url = urlsplit(where)
        kind, host, port = kinds[url.scheme], url.hostname or '', url.port
    except (KeyError, ValueError) as problem:
        remedy = 'Give http://HOST:PORT, https://HOST or the path of a socket'
        raise errors.OptionError(
            '--console', f'{where} is no URL of a console', remedy
        ) from problem
    return kind(host, port, timeout=WITHIN_S), url.path.rstrip('/')

# SPDX-License-Identifier: Apache-2.0
"""The JSON of a console, for commands where there is no database or decision log."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from novasched import errors
from novasched.commands.base import ConfiguredCommand
from novasched.inspection.session.orders import options
from novasched.parsing import parse_json
from novasched.runtime import connections
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


class ConsoleCommand(ConfiguredCommand):
    """A command that may ask a console instead; ``ONLY_HERE`` are the options, by the
    name of the argument, that a console does not know."""

    ONLY_HERE: Mapping[str, str] = {}

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--console',
            metavar='URL|SOCKET',
            default=os.environ.get(VARIABLE) or None,
            help='ask this console, and read neither databases nor decision logs; a '
            f'token for it is read from {TOKEN_VARIABLE} (default: {VARIABLE})',
        )
        return parser

    def of_console(
        self,
        parsed_args: argparse.Namespace,
        path: str,
        given: Given = (),
        known: Collection[str] | None = None,
    ) -> dict[str, Any] | None:
        """Return the answer of the console of ``--console``; None if it knows no such
        thing. ``known`` is as of ask().

        Raises errors.OptionError for what it does not take, and errors.ConsoleFailed.
        """
        for name, option in self.ONLY_HERE.items():
            if getattr(parsed_args, name):
                raise errors.OptionError(
                    '--console', f'it does not go with {option}', 'Leave one out'
                )
        return ask(parsed_args.console, path, given, known)

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
            raise errors.OptionError('--console', problem, 'Look at its pages')
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
    where: str, path: str, given: Given = (), known: Collection[str] | None = None
) -> dict[str, Any] | None:
    """Return the JSON object that a console has at a path of its interface, if any.

    ``where`` is its URL, or the path of its socket. ``known`` are the parameters of a
    console that does not say which it reads, if that matters. Raises
    errors.OptionError for what it refuses or does not read, and errors.ConsoleFailed if
    it does not answer.
    """
    import http.client

    given = list(given)
    said = urlencode(given)
    connection, prefix = _connection(where)
    headers = {'Accept': 'application/json'}
    if token := os.environ.get(TOKEN_VARIABLE):
        headers['X-Auth-Token'] = token
    try:
        target = f'{prefix}{API}{path}{"?" if said else ""}{said}'
        connection.request('GET', target, headers=headers)
        reply = connection.getresponse()
        body = reply.read(MOST_BYTES)
        status, reads = reply.status, reply.getheader(PARAMETERS)
    except (OSError, http.client.HTTPException) as problem:
        raise errors.ConsoleFailed(where, connections.reason(problem)) from problem
    finally:
        connection.close()
    try:
        answer = parse_json(body)
        text = str(answer.get('error', ''))
    except (ValueError, AttributeError):
        answer, text = None, ''
    if status == 200 and answer is not None:
        if known is not None:
            _check(given, known if reads is None else reads.split(','))
        return dict(answer)
    if status == 404 and text:
        return None
    if status == 400 and text:
        raise errors.OptionError('--console', f'it answers: {text}', 'Correct it')
    if status in (401, 403):
        remedy = f'put a token that may look into {TOKEN_VARIABLE}'
        raise errors.ConsoleFailed(where, f'it refuses us (HTTP {status}): {remedy}')
    raise errors.ConsoleFailed(where, text or f'it answers HTTP {status}')


def _check(given: Given, known: Collection[str]) -> None:
    """Raise errors.OptionError for parameters that a console has passed over."""
    if unread := sorted({name for name, _ in given}.difference(known)):
        problem = f'it is of an older release, and does not know {", ".join(unread)}'
        raise errors.OptionError('--console', problem, 'Upgrade it, or leave them out')


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

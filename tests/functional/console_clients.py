# SPDX-License-Identifier: Apache-2.0
"""Requests to a console at a port or a unix socket, and its answers."""

from __future__ import annotations

import contextlib
import gc
import http.client
import io
import socket
import threading
from dataclasses import dataclass, field

import pytest

from novasched.console import web_server
from novasched.console.settings import ConsoleSettings
from novasched.observability.settings import Address
from tests.functional.endpoints import HERE

END_S = 20
LOCAL = Address(HERE, 0)
CALLERS = {'Host': 'localhost:9109'}


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    text: str
    all_headers: list[tuple[str, str]] = field(default_factory=list)


def connected(address):
    """A connection to a server."""
    if address.path:
        with contextlib.ExitStack() as stack:
            made = stack.enter_context(socket.socket(socket.AF_UNIX))
            made.settimeout(END_S)
            made.connect(address.path)
            stack.pop_all()
            return made
    return socket.create_connection((address.host, address.port), END_S)


class OneAnswer:
    """A connection of which no more is read than an answer has: another may follow."""

    def __init__(self, connection):
        self._connection = connection

    def makefile(self, mode):
        return io.BufferedReader(self._connection.makefile(mode, 0), 1)


def received(connection, method='GET'):
    """The next answer of a connection."""
    response = http.client.HTTPResponse(OneAnswer(connection), method=method)
    # It holds the socket open until it is closed itself.
    with contextlib.closing(response) as answer:
        answer.begin()
        headers = answer.getheaders()
        return Answer(answer.status, dict(headers), answer.read().decode(), headers)


def said(address, content, method='GET'):
    """The answer to what is sent as it is."""
    with connected(address) as connection:
        connection.sendall(content)
        return received(connection, method)


def ask(address, path='/hosts', method='GET', **headers):
    """The answer to a request; an underscore of a header's name is a hyphen."""
    named = {name.replace('_', '-'): value for name, value in headers.items()}
    lines = [f'{name}: {value}' for name, value in {**CALLERS, **named}.items()]
    request = '\r\n'.join([f'{method} {path} HTTP/1.1', *lines, '', ''])
    return said(address, request.encode(), method)


def get(path):
    """A request as bytes."""
    return f'GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode()


@pytest.fixture
def serve():
    """Serve an application; return where."""
    with contextlib.ExitStack() as stack:

        def start(made, listen=LOCAL, **options):
            settings = ConsoleSettings(listen=listen, **options)
            return stack.enter_context(web_server.served(made, settings))

        yield start


def plain(environ, start_response):
    """An application that says in what it was called."""
    text = environ['PATH_INFO'].encode()
    start_response('200 OK', [('Content-Length', str(len(text)))])
    return [text]


class Waiting:
    """An application that answers when a test says so."""

    def __init__(self):
        self.begun, self._may_end = threading.Semaphore(0), threading.Semaphore(0)
        self.asked = []

    def __call__(self, environ, start_response):
        self.asked.append(environ['PATH_INFO'])
        self.begun.release()
        assert self._may_end.acquire(timeout=END_S)
        return plain(environ, start_response)

    def end(self, count=100):
        """Let so many requests be answered."""
        self._may_end.release(count)


def the_server():
    """The server that is running."""
    (found,) = [
        each
        for each in gc.get_objects()
        if type(each) is web_server.ConsoleServer and not each._stopped.is_set()
    ]
    return found

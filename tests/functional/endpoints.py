# SPDX-License-Identifier: Apache-2.0
"""An endpoint of health and metrics at a free port or a unix socket, and its client."""

import contextlib

import pytest
import requests

from novasched.observability.serving import Endpoint, Response
from novasched.observability.settings import Address

HERE = '127.0.0.1'


def get(url):
    """Status, headers and text of an answer."""
    answer = requests.get(url, timeout=20)
    return answer.status_code, answer.headers, answer.text


def is_served(url, status):
    """Say whether a URL answers so; a refusal may get lost with its connection."""
    try:
        return get(url)[0] == status
    except requests.ConnectionError:
        return False


@pytest.fixture
def endpoint(tmp_path):
    """Serve routes at a port, or at a unix socket of this name."""
    with contextlib.ExitStack() as stack:

        def start(routes, path='', **limits):
            address = Address(path=str(tmp_path / path)) if path else Address(HERE, 0)
            made = Endpoint(address, routes, **limits)
            made.start()
            stack.callback(made.stop)
            return made

        yield start


def hello(headers):
    return Response(200, 'text/plain', b'hello', {'X-Said': headers.get('x-say', '')})

# SPDX-License-Identifier: Apache-2.0
"""What providers are called."""

from __future__ import annotations

import json

import pytest
import requests
from keystoneauth1 import exceptions

from novasched.objects.context import RequestContext
from novasched_lab.api.providers import Providers


class Adapter:
    """Gives one answer, or raises it."""

    def __init__(self, answer):
        self._answer = answer

    def request(self, url, method, **options):
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def answer(status, body):
    made = requests.Response()
    made.status_code = status
    made._content = body.encode()
    return made


@pytest.mark.parametrize(
    ('answered', 'expected'),
    [
        pytest.param(answer(200, json.dumps({'name': 'h1'})), 'h1', id='its name'),
        pytest.param(answer(404, ''), 'uuid', id='it is gone'),
        pytest.param(answer(200, 'nonsense'), 'uuid', id='no JSON'),
        pytest.param(exceptions.ConnectFailure('x'), 'uuid', id='no answer'),
    ],
)
def test_the_name_of_a_provider(answered, expected):
    context = RequestContext(overwrite=False)
    assert Providers(Adapter(answered)).name(context, 'uuid') == expected

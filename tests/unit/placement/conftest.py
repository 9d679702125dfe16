# SPDX-License-Identifier: Apache-2.0
"""A placement that gives prepared answers, in the place of the network."""

from __future__ import annotations

import io
import json

import pytest
import requests
import urllib3
from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session

from novasched.objects.context import RequestContext
from novasched.placement.contents import PlacementApiContents
from tests import placement_api
from tests.unit.placement.answers import claim

URL = 'http://placement.test/placement'


class Script(requests.adapters.BaseAdapter):
    """Answers with (status, body) or these and headers, or raises; keeps what it was
    asked."""

    def __init__(self, answers):
        super().__init__()
        self.answers = list(answers)
        self.requests = []
        self.options = []

    def send(self, request, **options):
        self.requests.append(request)
        self.options.append(options)
        answer = self.answer(request)
        if isinstance(answer, Exception):
            raise answer
        return self._response(request, *answer)

    def answer(self, request):
        """The next one; a test may put another function in its place."""
        return self.answers.pop(0)

    def close(self):
        pass

    @property
    def asked(self):
        """What was asked, as ``METHOD /path``."""
        return [f'{r.method} {r.url.removeprefix(URL)}' for r in self.requests]

    def body(self, number):
        return json.loads(self.requests[number].body)

    def _response(self, request, status, body, headers=None):
        text = body if isinstance(body, str) else json.dumps(body)
        raw = urllib3.HTTPResponse(
            io.BytesIO(text.encode()), headers, status, preload_content=False
        )
        return requests.adapters.HTTPAdapter().build_response(request, raw)


@pytest.fixture
def scripted():
    """Return a maker of an adapter to a script of answers."""
    opened = []

    def make(*answers, **options):
        script = Script(answers)
        http = requests.Session()
        http.trust_env = False
        http.mount('http://', script)
        opened.append(http)
        auth = token_endpoint.Token(URL, 'token')
        session = Session(auth=auth, session=http, timeout=60)
        adapter = Adapter(
            session, service_type='placement', endpoint_override=URL, **options
        )
        return adapter, script

    yield make
    for http in opened:
        http.close()


@pytest.fixture
def context():
    return RequestContext(request_id='req-own', overwrite=False)


@pytest.fixture
def claiming(scripted, context):
    """Return a function that claims with prepared answers, all of which it needs."""

    def run(*answers, adds=False, **options):
        adapter, script = scripted(*answers, **options)
        outcome = claim(adapter, context, adds)
        assert not script.answers
        return outcome, script

    return run


@pytest.fixture
def world():
    return placement_api.small_world()


@pytest.fixture
def world_api(world, scripted):
    """An adapter to the world's API, and what is asked through it."""
    adapter, script = scripted()
    script.answer = lambda request: world.answer(request.url.removeprefix(URL))
    return adapter, script


@pytest.fixture
def served(world_api):
    """A reader of the world, and a function that returns what it asked since."""
    adapter, script = world_api

    def asked():
        found = [each.removeprefix('GET ') for each in script.asked]
        script.requests.clear()
        return found

    return PlacementApiContents(adapter, share=1.0), asked

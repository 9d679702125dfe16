# SPDX-License-Identifier: Apache-2.0
"""A placement that gives prepared answers, in the place of the network."""

import pytest
from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session

from novasched.objects.context import RequestContext
from novasched.placement.contents import PlacementApiContents
from tests import placement_api
from tests.scripted_http import Script
from tests.unit.placement.answers import claim

URL = 'http://placement.test/placement'


@pytest.fixture
def scripted():
    """Return a maker of an adapter to a script of answers."""
    opened = []

    def make(*answers, **options):
        script = Script(URL, answers)
        http = script.session()
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


@pytest.fixture
def many(world):
    """A hundred hosts more."""
    for number in range(placement_api.MANY):
        world.add(f'host-{number}', VCPU=8, DISK_GB=9)
    return world

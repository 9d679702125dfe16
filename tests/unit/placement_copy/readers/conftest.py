# SPDX-License-Identifier: Apache-2.0
"""A small world of placement, and its reader by the API."""

import pytest
from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session

from novasched.placement_copy.readers.api import ApiReader
from tests.support.placement import placement_api
from tests.support.placement.scripted_http import Script

URL = 'http://placement.test/placement'


@pytest.fixture
def world():
    return placement_api.small_world()


@pytest.fixture
def world_api(world):
    """An adapter to the world's API, and what is asked through it."""
    script = Script(URL, [])
    script.answer = lambda request: world.answer(request.url.removeprefix(URL))
    with script.session() as http:
        auth = token_endpoint.Token(URL, 'token')
        session = Session(auth=auth, session=http, timeout=60)
        adapter = Adapter(session, service_type='placement', endpoint_override=URL)
        yield adapter, script


@pytest.fixture
def served(world_api):
    """A reader of the world, and a function that returns what it asked since."""
    adapter, script = world_api

    def asked():
        found = [each.removeprefix('GET ') for each in script.asked]
        script.requests.clear()
        return found

    return ApiReader(adapter, share=1.0), asked


@pytest.fixture
def many(world):
    """A hundred hosts more."""
    for number in range(placement_api.MANY):
        world.add(f'host-{number}', VCPU=8, DISK_GB=9)
    return world

# SPDX-License-Identifier: Apache-2.0
"""A placement that gives prepared answers, in the place of the network."""

import pytest
from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session

from novasched.objects.context import RequestContext
from tests.support.placement.scripted_http import Script
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

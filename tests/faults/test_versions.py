# SPDX-License-Identifier: Apache-2.0
"""The microversion that each request to placement asks for, and one it lacks."""

from __future__ import annotations

import pytest

from novasched import errors
from tests.faults import proxy
from tests.functional.conftest import Host, new_uuids

HOSTS = [Host('h1', memory_mb=9000), Host('h2')]
HELD = {'VCPU': 1, 'MEMORY_MB': 512}
TOO_NEW = proxy.answers(
    406,
    b'{"errors": [{"status": 406, "title": "Not Acceptable", "detail": "Unacceptable '
    b'version header: 1.36", "max_version": "1.28", "min_version": "1.0"}]}',
)


@pytest.fixture
def made(cloud):
    return cloud(HOSTS)


def versions(made, method, pattern):
    return {
        {name.lower(): value for name, value in asked.headers.items()}.get(
            'openstack-api-version'
        )
        for asked in made.proxy.asked(method, pattern)
    }


def test_each_request_names_its_version(made):
    moved, other = new_uuids(2)
    made.hold(moved, h1=HELD)
    made.proxy.on('PUT', other, proxy.answers(500, b'oops'), times=9)
    with pytest.raises(errors.NoValidHost):
        made.ask(made.compose(), [moved, other], ignore_hosts=['h1'])
    assert versions(made, 'GET', '^/allocation_candidates') == {'placement 1.36'}
    assert versions(made, 'POST', '^/allocations$') == {'placement 1.36'}
    assert versions(made, 'GET', '^/allocations/') == {'placement 1.28'}
    assert versions(made, 'PUT', f'^/allocations/{moved}') == {
        'placement 1.36',
        'placement 1.28',
    }
    assert made.amounts(moved) == {'h1': HELD}


def test_a_claim_is_undone_with_the_version_that_knows_generations(made):
    first, second = new_uuids(2)
    made.proxy.on('POST', '^/allocations$', proxy.answers(400, b'{}'), times=9)
    made.proxy.on('PUT', second, proxy.answers(400, b'{}'), times=9)
    with pytest.raises(errors.NoValidHost):
        made.ask(made.compose(), [first, second])
    undo = made.proxy.asked('PUT', f'^/allocations/{first}')[-1]
    assert undo.headers['OpenStack-API-Version'] == 'placement 1.28'
    assert made.held() == {}


def test_a_placement_that_is_too_old_for_the_question_is_no_valid_host(made, caplog):
    made.proxy.on('GET', '^/allocation_candidates', TOO_NEW, times=9)
    with pytest.raises(errors.NoValidHost):
        made.ask(made.compose(), new_uuids())
    assert any('Got 406' in text for text in caplog.messages)


def test_a_placement_that_is_too_old_for_the_claim_refuses_it(made):
    made.proxy.on('PUT', '^/allocations/', TOO_NEW, times=9)
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        made.ask(made.compose(), new_uuids())
    assert made.held() == {}

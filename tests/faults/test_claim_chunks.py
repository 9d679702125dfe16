# SPDX-License-Identifier: Apache-2.0
"""Claims for so many servers that they go in chunks, of which the second goes wrong."""

from __future__ import annotations

import functools
import json

import pytest

from novasched import errors
from novasched.claiming import claims
from tests.faults import proxy
from tests.functional.conftest import Host, new_uuids

CLAIM = '^/allocations/'
JOINT = '^/allocations$'
CHUNK = 5
MANY = CHUNK + 1
ROOMY = [Host(f'h{n}', vcpus=MANY // 2) for n in range(2)]


@pytest.fixture
def roomy(cloud, monkeypatch):
    monkeypatch.setattr(claims, 'chunks', functools.partial(claims.chunks, size=CHUNK))
    return cloud(ROOMY)


def ask(made):
    """Ask for as many servers as there is room for; return their uuids."""
    uuids = new_uuids(MANY)
    made.ask(made.compose(), uuids)
    return uuids


def held_before_the_second(made, consumer=None):
    """Let another process claim on the host of the second chunk, for one of its
    consumers if none is named, before it comes to placement; return what is held then.
    """
    held = {}

    def claimed_by_another(exchange):
        first, claim = next(iter(json.loads(exchange.asked.body).items()))
        host = made.names[next(iter(claim['allocations']))]
        made.hold(consumer or first, **{host: {'VCPU': 1}})
        held[consumer or first] = {host}
        proxy.passed(exchange)

    made.proxy.on('POST', JOINT, claimed_by_another, nth=2)
    return held


def test_a_chunk_for_which_there_is_no_room_any_more_undoes_all(roomy, new_uuid):
    held = held_before_the_second(roomy, new_uuid())
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        ask(roomy)
    assert roomy.held() == held


def test_claim_of_another_for_a_server_of_a_chunk_stays(roomy):
    held = held_before_the_second(roomy)
    with pytest.raises(errors.RequestError):
        ask(roomy)
    assert roomy.held() == held


def test_a_conflict_sends_one_chunk_again(roomy):
    changed = 'Inventory and/or allocations changed while attempting'
    error = {'code': 'placement.concurrent_update', 'detail': changed}
    body = json.dumps({'errors': [error]}).encode()
    roomy.proxy.on('POST', JOINT, proxy.answers(409, body), nth=2)
    uuids = ask(roomy)
    assert roomy.held().keys() == set(uuids)
    bodies = [one.body for one in roomy.proxy.asked('POST', JOINT)]
    assert len(bodies) == 3
    assert bodies[1] == bodies[2]


def test_a_chunk_without_an_answer_undoes_all(roomy):
    roomy.proxy.on('POST', JOINT, proxy.lose, nth=2, times=2)
    roomy.proxy.on('GET', CLAIM, proxy.answers(500, b'oops'), times=2)
    with pytest.raises(errors.AllocationUpdateFailed, match='did not answer'):
        ask(roomy)
    assert roomy.held() == {}

# SPDX-License-Identifier: Apache-2.0
"""A conductor or a compute is killed in the midst of boots: all end all the same."""

from __future__ import annotations

import pytest

from tests.live.cloud import CELLS
from tests.live.flow import fleet, running
from tests.live.flow_books import Books, assert_named

FIRST = tuple((f'kill-{number}', CELLS[number % 2]) for number in range(3))
SECOND = tuple((f'kill-{number}', CELLS[number % 2]) for number in range(3, 6))
SINGLES, MANY = 24, 8

pytestmark = pytest.mark.ours


@pytest.fixture(scope='module')
def flow(tmp_path_factory, rabbitmq, mariadb, placement, keystone):
    """All programs, that lose patience soon; computes in two processes."""
    with running(
        tmp_path_factory.mktemp('kills', numbered=False),
        (rabbitmq, mariadb, placement, keystone),
        [name for name, _ in FIRST + SECOND],
        {'compute': fleet(*FIRST), 'compute-2': fleet(*SECOND)},
        DEFAULT={
            'rpc_response_timeout': 10,
            'long_rpc_timeout': 20,
            'update_resources_interval': 5,
        },
        novasched={'build_grace': 15},
    ) as made:
        yield made


@pytest.fixture
def boots(flow, new_uuid):
    """Ask for several instances, some of them at once; give their uuids."""
    asked = [[new_uuid()] for _ in range(SINGLES)]
    asked.insert(SINGLES // 2, [new_uuid() for _ in range(MANY)])
    for uuids in asked:
        flow.boot(uuids)
    return [uuid for uuids in asked for uuid in uuids]


@pytest.mark.parametrize('program', ['conductor', 'compute', 'compute-2'])
def test_a_killed_program_is_mended_by_its_successor(
    flow, boots, placement, claims, eventually, program
):
    books = Books(flow, placement)
    eventually(lambda: books.states()['active', None] > 2, 'the first to be built')
    flow.processes[program].kill()
    assert books.states()['active', None] < len(boots)
    flow.start(program)
    active, failed = books.at_rest(boots, 120)
    claims.expect(*active)
    books.agree(boots)
    assert_named(flow, failed)
    for uuid in active:
        instance = flow.instance(uuid)
        flow.computes().terminate_instance(flow.context, instance.host, instance)
    eventually(lambda: not placement.consumers() & active, 'the end of all')
    claims.forget(*active)
    books.agree(failed)

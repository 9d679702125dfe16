# SPDX-License-Identifier: Apache-2.0
"""Servers moved, as the API asks for it."""

import oslo_messaging
import pytest

from novasched import errors
from novasched.inspection.session import catalogue
from novasched_lab.api.boot import NoConductorAnswers
from novasched_lab.api.servers import MoveRefused, MoveRequest
from novasched_lab.db.cell_servers import Fault, Migration
from tests.support.tables.cases import cases


def move(made, name='vm'):
    return MoveRequest(made.api_context, made.context, made.servers.one(name))


def test_a_conductor_is_asked_for_any_host(made):
    uuid = made.running()
    move(made).begin(None, None)
    _, instance, flavor, request = made.conductor.asked[-1]
    assert (instance.uuid, flavor, request) == (uuid, None, None)


def test_a_conductor_is_asked_for_a_host_and_another_size(made):
    made.running()
    small = catalogue.flavor_of('m1.tiny')
    move(made).begin('h2', small)
    _, _, flavor, request = made.conductor.asked[-1]
    assert flavor == small
    assert request.requested_destination.host == 'h2'


def test_a_host_of_no_cell_is_refused(made):
    made.running()
    with pytest.raises(errors.OptionError, match='h9 is not in cell1'):
        move(made).begin('h9', None)


def test_only_a_server_that_runs_is_moved(made):
    made.boot()
    with pytest.raises(errors.OptionError, match=r'vm is BUILD\. Wait until'):
        move(made).begin(None, None)


@cases(
    'problem, expected, text',
    (
        'no host',
        oslo_messaging.RemoteError('NoValidHost', 'No valid host', []),
        MoveRefused,
        'stays where it is: NoValidHost: No valid host',
    ),
    (
        'no conductor',
        oslo_messaging.MessagingTimeout('60 s'),
        NoConductorAnswers,
        'No conductor answers: 60 s',
    ),
)
def test_a_move_that_is_not_begun(made, problem, expected, text):
    made.running()
    made.conductor.raises = problem
    with pytest.raises(expected, match=text):
        move(made).begin(None, None)


def test_how_far_a_move_is(made):
    uuid = made.running()
    task = move(made)
    assert task.progress() is None
    assert task.failure() is None
    row = Migration.of(uuid, 'migration', 'h1', 'n1')
    made.cell1.add_migration(row)
    assert task.progress() == ('pre-migrating', 'h1', None)
    assert not task.is_over()
    made.cell1.update_migration(row.uuid, status='error', dest_compute='h2')
    made.cell1.add_fault(uuid, Fault('no room'))
    assert task.progress() == ('error', 'h1', 'h2')
    assert task.is_over()
    assert task.failure() == 'no room'


def test_a_server_without_a_cell_has_no_moves(made):
    made.boot()
    assert move(made).progress() is None
    assert move(made).failure() is None

# SPDX-License-Identifier: Apache-2.0
"""novasched show."""

import pytest

from lab.tests.unit.commands.commands import run
from novasched_lab.commands.servers import ShowServer


@pytest.fixture
def uuid(made):
    """A server that runs, and holds something."""
    uuid = made.running('one')
    made.allocations.held = {uuid: {'rp1': {'VCPU': 1, 'MEMORY_MB': 512}}}
    return uuid


def test_a_program_reads_lists_as_lists(made, uuid):
    code, found, _ = run(ShowServer, made.api_context, 'one')
    assert code == 0
    assert (found['id'], found['node'], found['fault']) == (uuid, 'n1', None)
    assert found['allocations'] == [
        {
            'consumer': 'server',
            'provider': 'name of rp1',
            'resources': {'VCPU': 1, 'MEMORY_MB': 512},
        }
    ]
    assert found['actions'][0]['action'] == 'create'


def test_a_person_reads_them_as_lines(made, uuid):
    _, table, _ = run(ShowServer, made.api_context, 'one', form='table')
    assert 'server name of rp1 VCPU 1, MEMORY_MB 512' in table
    assert ' create' in table
    assert 'None' not in table


@pytest.mark.parametrize('form', ['yaml', 'value', 'shell'])
def test_the_other_forms(made, uuid, form):
    code, text, _ = run(ShowServer, made.api_context, uuid, form=form)
    assert code == 0
    assert uuid in text

# SPDX-License-Identifier: Apache-2.0
"""novasched list."""

from __future__ import annotations

import pytest

from lab.tests.unit.commands.commands import run
from novasched_lab.commands.command import PIPE_WIDTH, fitted
from novasched_lab.commands.servers import ListServers
from novasched_lab.db.cell_servers import Fault


@pytest.mark.parametrize(
    ('words', 'expected'),
    [
        pytest.param((), ['asked', 'alive'], id='all'),
        pytest.param(('--host', 'h1'), ['alive'], id='of a host'),
        pytest.param(('--status', 'build'), ['asked'], id='of a status'),
        pytest.param(('--cell', 'cell1'), ['alive'], id='of a cell'),
    ],
)
def test_servers_are_listed(made, words, expected):
    made.boot('asked')
    made.running('alive')
    code, found, _ = run(ListServers, made.api_context, *words)
    assert code == 0
    assert [each['Name'] for each in found] == expected


def test_what_is_not_there_is_a_dash_for_people(made):
    made.boot('asked')
    _, (found,), _ = run(ListServers, made.api_context)
    assert found['Host'] is None
    _, table, _ = run(ListServers, made.api_context, form='table')
    assert 'None' not in table
    assert '| -' in table


def widths(table):
    """The widths of the lines of a table."""
    return {len(line) for line in table.splitlines()}


def test_a_table_in_a_pipe_is_not_as_wide_as_a_fault(made):
    uuid = made.running('vm', vm_state='error')
    made.cell1.add_fault(uuid, Fault('No valid host was found. ' * 10))
    _, table, _ = run(ListServers, made.api_context, form='table')
    assert widths(table) == {PIPE_WIDTH}
    assert uuid in table
    assert '...' in table
    assert 'Zone' not in table
    _, table, _ = run(ListServers, made.api_context, '--max-width', '90', form='table')
    assert widths(table) == {90}
    _, table, _ = run(ListServers, made.api_context, '--long', form='table')
    assert 'Zone' in table
    assert 'No valid host was found. ' * 9 in table
    _, table, _ = run(
        ListServers, made.api_context, '-c', 'Zone', '-c', 'Fault', form='table'
    )
    assert widths(table) == {PIPE_WIDTH}
    assert 'Zone' in table
    _, (found,), _ = run(ListServers, made.api_context)
    assert found['Fault'] == ('No valid host was found. ' * 10)[:255]
    assert found['Project'] == 'project'


UUID = 'c0000000-0000-4000-8000-000000000001'


@pytest.mark.parametrize(
    ('width', 'expected'),
    [
        pytest.param(200, [UUID, 'a-long-name', 'A fault in two lines'], id='all fits'),
        pytest.param(
            70, [UUID, 'a-long-name', 'A fault in...'], id='the widest is cut first'
        ),
        pytest.param(
            60,
            ['c0000000-0000-4000-8000-0000000...', 'a-lon...', 'A fau...'],
            id='the ID is cut last',
        ),
        pytest.param(
            10, ['c0000...', 'a-lon...', 'A fau...'], id='no less than this is left'
        ),
    ],
)
def test_tables_are_cut_to_fit(width, expected):
    rows = [[UUID, 'a-long-name', 'A fault\nin two lines']]
    names = ('ID', 'Name', 'Fault')
    assert fitted(names, rows, width, frozenset(names)) == [expected]

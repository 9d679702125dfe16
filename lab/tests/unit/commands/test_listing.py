# SPDX-License-Identifier: Apache-2.0
"""novasched list."""

from lab.tests.unit.commands.commands import run
from novasched.commands.base import PIPE_WIDTH
from novasched_lab.commands.servers import ListServers
from novasched_lab.db.cell_servers import Fault
from tests.support.tables.cases import cases


@cases(
    'words, expected',
    ('all', (), ['asked', 'alive']),
    ('of a host', ('--host', 'h1'), ['alive']),
    ('of a status', ('--status', 'build'), ['asked']),
    ('of a cell', ('--cell', 'cell1'), ['alive']),
)
def test_servers_are_listed(made, words, expected):
    made.boot('asked')
    made.running('alive')
    code, found, _ = run(ListServers, made.api_context, *words)
    assert code == 0
    assert [each['Name'] for each in found] == expected


def test_missing_value_is_a_dash_in_tables(made):
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
    assert '…' in table
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

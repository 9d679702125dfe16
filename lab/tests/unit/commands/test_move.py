# SPDX-License-Identifier: Apache-2.0
"""novasched move."""

from lab.tests.unit.commands.commands import run
from novasched_lab.commands.servers import MoveServer
from novasched_lab.db.cell_servers import Fault, Migration
from tests.support.tables.cases import cases


def moving(made, uuid, status):
    """Let a conductor begin a move that gets as far as a status."""

    def begin(what, instance, flavor, request):
        row = Migration.of(uuid, 'migration', 'h1', 'n1')
        made.cell1.add_migration(row._replace(status=status, dest_compute='h2'))
        made.cell1.update(uuid, host='h2')

    made.conductor._keep = begin


@cases(
    'status, words, expected',
    ('it has moved', 'confirmed', (), (0, 'confirmed', None)),
    ('it has not', 'error', (), (1, 'error', 'no room')),
    ('it is on its way', 'migrating', ('--no-wait',), (0, 'migrating', None)),
    ('time is up', 'migrating', ('--timeout', '0'), (1, 'migrating', None)),
)
def test_a_move(made, status, words, expected):
    uuid = made.running('vm')
    made.cell1.add_fault(uuid, Fault('no room'))
    moving(made, uuid, status)
    code, (found,), said = run(
        MoveServer, made.api_context, 'vm', '--flavor', 'm1.tiny', *words
    )
    assert (code, found['Move'], found['Fault']) == expected
    assert (found['From'], found['To']) == ('h1', 'h2')
    assert said.startswith('It has not moved after') == ('--timeout' in words)


def test_a_move_that_left_no_trace(made):
    made.running('vm')
    code, (found,), _ = run(MoveServer, made.api_context, 'vm', '--timeout', '0')
    assert (code, found['From'], found['Move']) == (1, None, None)

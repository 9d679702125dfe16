# SPDX-License-Identifier: Apache-2.0
"""novasched delete."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.shims.commands.delete import Delete
from tests.unit.shims.commands.commands import run


def test_servers_are_deleted_once_each(made):
    (uuid,) = made.boot('asked')
    code, (found,), _ = run(Delete, made.parts, 'asked', uuid)
    assert (code, found['ID'], found['Outcome']) == (0, uuid, 'deleted')


def test_a_host_is_waited_for(made):
    uuid = made.running()
    made.computes._tell = lambda *told: made.cell1.destroy(uuid)
    code, (found,), said = run(Delete, made.parts, '--all')
    assert (code, found['Outcome'], said) == (0, 'deleted', '')
    assert made.api.mappings() == []


@pytest.mark.parametrize(
    ('word', 'expected'),
    [
        pytest.param('--no-wait', 0, id='not at all'),
        pytest.param('--timeout=0', 1, id='not for ever'),
    ],
)
def test_a_host_that_is_away_is_not_waited_for(made, word, expected):
    made.running('vm')
    code, (found,), said = run(Delete, made.parts, 'vm', word)
    assert (code, found['Outcome']) == (expected, 'deleting')
    assert ('novasched delete --force' in said) == bool(expected)


@pytest.mark.parametrize('words', [(), ('--all', 'vm')])
def test_either_some_are_named_or_all(made, words):
    with pytest.raises(errors.OptionError, match='Name some, or --all'):
        run(Delete, made.parts, *words)

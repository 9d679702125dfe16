# SPDX-License-Identifier: Apache-2.0
"""novasched list."""

from __future__ import annotations

import pytest

from novasched.shims.commands.listing import List
from tests.unit.shims.commands.commands import run


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
    code, found, _ = run(List, made.parts, *words)
    assert code == 0
    assert [each['Name'] for each in found] == expected


def test_what_is_not_there_is_a_dash_for_people(made):
    made.boot('asked')
    _, (found,), _ = run(List, made.parts)
    assert found['Host'] is None
    _, table, _ = run(List, made.parts, form='table')
    assert 'None' not in table
    assert '| -' in table

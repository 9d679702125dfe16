# SPDX-License-Identifier: Apache-2.0
"""The page of faults says what the marks of tests say, and every fault has a test."""

import sys

import pytest

from tests.faults.scenarios import INVARIANTS, SCENARIOS, marked
from tests.live.servers.process import completed


@pytest.fixture(scope='module')
def scenarios(root):
    return marked(root)


def test_the_page_is_as_the_tool_makes_it(root):
    run = completed(
        [sys.executable, '-W', 'ignore', root / 'tools' / 'faults-page', '--check']
    )
    assert run.returncode == 0, run.stderr


def test_the_scenarios_and_invariants_are_numbered_without_a_gap():
    assert list(SCENARIOS) == [f'F{number}' for number in range(1, 55)]
    assert list(INVARIANTS) == [f'I{number}' for number in range(1, 9)]


def test_every_invariant_is_checked_by_a_test(scenarios):
    checked = {name for tests in scenarios.values() for t in tests
               for name in t.invariants}  # fmt: skip
    assert checked == INVARIANTS.keys()


def test_a_mark_that_means_nothing_is_refused(tmp_path):
    (tmp_path / 'tests').mkdir()
    wrong = "import pytest\n@pytest.mark.scenario('F99', 'I1')\ndef test_it(): pass\n"
    (tmp_path / 'tests' / 'test_wrong.py').write_text(wrong)
    with pytest.raises(ValueError, match='test_it has an unknown mark'):
        marked(tmp_path)


def test_every_scenario_has_a_test(scenarios):
    without = [name for name, tests in scenarios.items() if not tests]
    assert not without, '\n'.join(
        f'{name} ({SCENARIOS[name].fault}) has no test: put '
        f"@pytest.mark.scenario('{name}', ...) on one, and run tools/faults-page"
        for name in without
    )

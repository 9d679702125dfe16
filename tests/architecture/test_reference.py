# SPDX-License-Identifier: Apache-2.0
"""The pages of filters, weighers and metrics say what the code says."""

import sys

import pytest

from novasched.inspection.texts import advice
from novasched.observability import catalogue
from novasched.scheduler.reasons import Code
from tests.live.servers.process import completed


def test_the_pages_are_as_the_tool_makes_them(root):
    run = completed(
        [sys.executable, '-W', 'ignore', root / 'tools' / 'reference', '--check']
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize('kind', ['filters', 'weighers'])
def test_every_installed_class_has_its_section(root, entry_points, kind):
    page = (root / 'docs' / 'reference' / f'{kind}.md').read_text()
    headings = [line[3:] for line in page.splitlines() if line.startswith('## ')]
    assert sorted(headings) == sorted(entry_points[f'novasched.scheduler.{kind}'])


def test_every_metric_has_its_section(root):
    page = (root / 'docs' / 'reference' / 'metrics.md').read_text()
    headings = [line[3:] for line in page.splitlines() if line.startswith('## ')]
    metrics = (*catalogue.ALL, catalogue.FREE_SLOTS)
    assert headings == [metric.name for metric in metrics]


def test_every_blocker_and_code_has_its_row(root):
    page = (root / 'docs' / 'reference' / 'reasons.md').read_text()
    rows = [line[3:].split('`')[0] for line in page.splitlines() if line[:3] == '| `']
    assert rows == [*advice.BLOCKERS, *Code]


def test_choices_say_what_they_mean(root):
    page = (root / 'docs' / 'reference' / 'filters.md').read_text()
    (line,) = {line for line in page.splitlines() if '[novasched] numa_compat' in line}
    assert '`right`: every way to place' in line
    assert '`nova`: as nova does, with its defects' in line

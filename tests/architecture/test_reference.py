# SPDX-License-Identifier: Apache-2.0
"""The pages of filters, weighers and metrics say what the code says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from novasched.observability import catalogue


def test_the_pages_are_as_the_tool_makes_them(root):
    run = subprocess.run(
        [sys.executable, '-W', 'ignore', root / 'tools' / 'reference', '--check'],
        capture_output=True,
        text=True,
        check=False,
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
    assert headings == [metric.name for metric in catalogue.ALL]


def test_choices_say_what_they_mean(root):
    page = (root / 'docs' / 'reference' / 'filters.md').read_text()
    (line,) = {line for line in page.splitlines() if '[novasched] numa_compat' in line}
    assert '`right`: every way to place' in line
    assert '`nova`: as nova does, with its defects' in line

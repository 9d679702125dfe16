# SPDX-License-Identifier: Apache-2.0
"""A report reads well on any terminal, and as JSON."""

from __future__ import annotations

import dataclasses
import json
import textwrap

import pytest

from novasched_lab.local.report import (
    FilterStep,
    HeldClaim,
    Rejection,
    Report,
    Score,
    ScoredHost,
    as_json,
    as_text,
)

REPORT = Report(
    request={'instance': 'an-instance', 'zone': 'east'},
    steps=[
        FilterStep('ComputeFilter', 6, 6, ()),
        FilterStep(
            'AvailabilityZoneFilter',
            6,
            2,
            (
                Rejection('host3', 'in zone north, not east'),
                Rejection('host4', 'in zone west, not east'),
                Rejection('host5', 'in zone west, not east'),
                Rejection('host6', 'in zone west, not east'),
            ),
        ),
    ],
    weights=[
        ScoredHost('host2', (Score('RAMWeigher', 2048.0, 1.0, 1.0, 1.0),), 1.0),
        ScoredHost('host1', (Score('RAMWeigher', 1024.5, 0.0, 1.0, 0.0),), 0.0),
    ],
    selected='host2',
    claim=HeldClaim('an-instance', {'host2': {'VCPU': 1, 'MEMORY_MB': 512}}),
    alternates=['host1'],
    seconds=0.0128,
)

WIDE = """\
Request
  instance  an-instance
  zone      east

Filters  6 -> 2
  ComputeFilter             6 -> 6
  AvailabilityZoneFilter    6 -> 2
    3 hosts: in zone west, not east
      host4, host5, host6
    1 host: in zone north, not east
      host3

Weights
  host   weigher           raw  normalised  x    adds   total
  host2  RAMWeigher       2048      1.0000  1  1.0000  1.0000
  host1  RAMWeigher  1024.5000      0.0000  1  0.0000  0.0000

Result
  selected    host2
  claimed     VCPU 1, MEMORY_MB 512 on host2
  alternates  host1
  took        0.013 s
"""

NARROW_WEIGHTS = """\
Weights
  host2  1.0000
    RAMWeigher  2048, adds 1.0000
  host1  0.0000
    RAMWeigher  1024.5000, adds 0.0000
"""


def section(text, title):
    return next(part for part in text.split('\n\n') if part.startswith(title))


def changed(**fields):
    return dataclasses.replace(REPORT, **fields)


def test_a_report_on_a_wide_terminal():
    assert as_text(REPORT) == WIDE


def test_a_narrow_terminal_gets_the_weights_host_by_host():
    assert section(as_text(REPORT, width=50), 'Weights') + '\n' == NARROW_WEIGHTS


@pytest.mark.parametrize('width', [40, 50, 64, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    hosts = [Rejection(f'compute-{n:02}', 'a reason in many words') for n in range(40)]
    report = changed(steps=[FilterStep('Filter', 42, 2, tuple(hosts))])
    assert max(map(len, as_text(report, width).splitlines())) <= width


def test_a_terminal_without_a_width_counts_as_a_narrow_one():
    assert as_text(REPORT, width=0) == as_text(REPORT, width=40)


def test_colour_changes_nothing_but_the_escapes():
    coloured = as_text(REPORT, colour=True)
    assert '\033[1mRequest\033[0m' in coloured
    assert '\033[1;32mhost2\033[0m' in coloured
    for escape in ('\033[1;32m', '\033[1m', '\033[2m', '\033[0m'):
        coloured = coloured.replace(escape, '')
    assert coloured == WIDE


@pytest.mark.parametrize(
    ('fields', 'title', 'expected'),
    [
        pytest.param(
            {'selected': None, 'claim': None, 'failure': 'Not enough.'},
            'Result',
            """\
            Result
              Not enough.
              alternates  host1
              took        0.013 s
            """,
            id='a failure stands where the host would',
        ),
        pytest.param(
            {'selected': None, 'claim': None, 'alternates': []},
            'Result',
            """\
            Result
              No host was found.
              took        0.013 s
            """,
            id='a failure without a text is said in ours',
        ),
        pytest.param(
            {'weights': [ScoredHost('host1', (), 0.0)]},
            'Weights',
            """\
            Weights
              host   weigher  raw  normalised  x  adds   total
              host1                                     0.0000
            """,
            id='a single host has no scores',
        ),
        pytest.param(
            {'weights': [ScoredHost('h', (Score('A', 1.0, 1.0, 2.0, 2.0),) * 2, 4.0)]},
            'Weights',
            """\
            Weights
              host  weigher  raw  normalised  x    adds   total
              h     A          1      1.0000  2  2.0000  4.0000
                    A          1      1.0000  2  2.0000
            """,
            id='a host is named once for all its weighers',
        ),
        pytest.param(
            {'steps': [FilterStep('A', 3, 3, ())]},
            'Filters',
            """\
            Filters  3
              A    3 -> 3
            """,
            id='the funnel starts with all hosts',
        ),
    ],
)
def test_sections(fields, title, expected):
    expected = textwrap.dedent(expected).rstrip()
    assert section(as_text(changed(**fields)), title).rstrip() == expected


def test_a_section_without_lines_is_left_out():
    text = as_text(changed(steps=[], weights=[]))
    assert 'Filters' not in text
    assert 'Weights' not in text


def test_json_has_every_field():
    fields = json.loads(as_json(REPORT))
    assert fields['funnel'] == [6, 2]
    assert fields['steps'][1]['rejected'][0] == {
        'host': 'host3',
        'reason': 'in zone north, not east',
    }
    assert fields['weights'][0] == {
        'host': 'host2',
        'scores': [
            {
                'weigher': 'RAMWeigher',
                'raw': 2048.0,
                'normalised': 1.0,
                'multiplier': 1.0,
                'weighted': 1.0,
            }
        ],
        'total': 1.0,
    }
    assert fields['selected'] == 'host2'
    assert fields['claim'] == {
        'consumer': 'an-instance',
        'allocations': {'host2': {'VCPU': 1, 'MEMORY_MB': 512}},
    }
    assert fields['alternates'] == ['host1']
    assert set(fields) == {*(f.name for f in dataclasses.fields(Report)), 'funnel'}


def test_json_of_a_failure_has_no_host():
    fields = json.loads(as_json(changed(selected=None, claim=None, failure='None.')))
    assert (fields['selected'], fields['claim']) == (None, None)
    assert fields['failure'] == 'None.'

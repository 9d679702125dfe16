# SPDX-License-Identifier: Apache-2.0
"""The words of a shadow: one table for the report, explanations and pages."""

import pathlib

import pytest

from novasched.decisions.comparison import Cause, KnownBy, NovaChoice, ServerComparison
from novasched.decisions.comparison import Verdict as ShadowVerdict
from novasched.inspection.texts import shadow
from tests.support.tables.cases import cases

PAGE = pathlib.Path(__file__).parents[4] / 'docs/reference/shadow.md'


@pytest.mark.parametrize(
    ('words', 'known'),
    [(shadow.VERDICTS, ShadowVerdict), (shadow.CAUSES, Cause)],
    ids=['verdicts', 'causes'],
)
def test_every_word_is_said_and_documented(words, known):
    assert set(words) == set(known)
    page = PAGE.read_text()
    missing = [w for w, said in words.items() if f'| `{w}` | {said} |' not in page]
    assert missing == []


def test_every_known_source_of_a_choice_is_said():
    assert set(shadow.KNOWN_BY) == set(KnownBy) - {KnownBy.UNKNOWN}


@cases(
    ('given', 'said'),
    ('none', ('equal', ''), ''),
    ('a filter', ('rejected', 'filter', 'RamFilter'), 'host (RamFilter)'),
    ('a request', ('better', 'other_request', 'req-1'), 'two (req-1)'),
    ('a later release', ('better', 'weather', 'rain'), 'weather (rain)'),
    (
        'weighers',
        ('better', 'unknown', '', ['RAMWeigher', 'CPUWeigher']),
        "it; without RAMWeigher or CPUWeigher nova's host is the best",
    ),
    ('weighers of nova', ('worse', 'unknown', '', ['RAMWeigher']), 'explains it'),
    ('weighers beside a cause', ('better', 'late', '', ['RAMWeigher']), 'decided'),
)
def test_causes_name_the_origin_of_the_difference(given, said):
    assert shadow.cause_of(*given).endswith(said)
    assert bool(shadow.cause_of(*given)) == bool(said)


@cases(
    ('choice', 'said'),
    ('not known', NovaChoice(None, 'unknown', 60.0), "nova's choice is not known"),
    (
        'no host',
        NovaChoice(None, 'failed', 2.0),
        'no host, the server is in error, seen after 2.0 s',
    ),
    (
        'its fault',
        NovaChoice(None, 'failed', 2.0, fault='No valid host was found.'),
        'no host, the server is in error, seen after 2.0 s, its fault: No valid host '
        'was found.',
    ),
    (
        'refused',
        NovaChoice('cmp-2', 'instance', 4.0, 0.25, ['cmp-1']),
        'cmp-2, by its row in the cell, seen after 4.0 s, decided in 250 ms, '
        'refused by cmp-1',
    ),
    (
        'of a later release',
        NovaChoice('cmp-2', 'oracle', 1.0),
        'cmp-2, oracle, seen after 1.0 s',
    ),
)
def test_choices_say_their_source(choice, said):
    assert shadow.choice(choice) == said


def test_unknown_choice_has_no_verdict_in_words():
    compared = ServerComparison('s', 'h', NovaChoice(None, 'unknown'), 'unknown')
    assert shadow.comparison(compared) == ''

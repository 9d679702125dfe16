# SPDX-License-Identifier: Apache-2.0
"""Requests are kept whole by what became of their servers."""

from novasched.decisions.comparison import Cause, NovaChoice, ServerComparison, Verdict
from novasched.shadow.keeping import is_kept_whole
from tests.support.tables.cases import cases


def compared(*verdicts):
    chosen = NovaChoice('h1', 'allocation')
    return [
        ServerComparison('u', 'h2', chosen, each, Cause.UNKNOWN) for each in verdicts
    ]


@cases(
    'keep, verdicts, expected',
    ('the difference of one server', 'differing', [Verdict.EQUAL, Verdict.WORSE], True),
    ('a host of nova that we reject', 'differing', [Verdict.REJECTED], True),
    ('a host that only one has', 'differing', [Verdict.NOVA_ONLY], True),
    ('equal choices', 'differing', [Verdict.EQUAL, Verdict.ALIKE], False),
    ('no known choice', 'differing', [Verdict.UNKNOWN], False),
    ('all', 'all', [Verdict.EQUAL], True),
    ('none', 'none', [Verdict.WORSE], False),
)
def test_option_says_which_requests_are_kept_whole(keep, verdicts, expected):
    assert is_kept_whole(keep, compared(*verdicts)) is expected

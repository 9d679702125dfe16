# SPDX-License-Identifier: Apache-2.0
"""Why a filter said no."""

import re

from novasched.scheduler.reasons import Code, Reason


def test_a_code_is_its_word():
    assert Code('wrong-zone') is Code.WRONG_ZONE
    assert Code.WRONG_ZONE == 'wrong-zone'
    assert f'{Code.WRONG_ZONE}' == 'wrong-zone'


def test_every_code_has_a_word_and_says_in_one_line_what_it_means():
    for code in Code:
        assert re.fullmatch('[a-z]+(-[a-z]+)*', code)
        assert code == code.name.lower().replace('_', '-')
        assert re.fullmatch(r'[A-Z].*[.]', code.doc)


def test_a_reason_reads_as_its_text():
    reason = Reason(Code.WRONG_ZONE, 'in zone a, not b')
    assert str(reason) == 'in zone a, not b'
    assert reason.code is Code.WRONG_ZONE

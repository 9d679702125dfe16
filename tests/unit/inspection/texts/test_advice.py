# SPDX-License-Identifier: Apache-2.0
"""Every reason has an advice."""

from novasched.inspection.texts import advice
from novasched.scheduler.reasons import Blocker, Code


def test_every_code_has_an_advice():
    assert set(advice.ADVICE) == set(Code)


def test_an_unknown_code_has_none():
    assert advice.advice_for('weather') == ''
    assert advice.advice_for('exhausted').startswith('Free some')


def test_advice_is_a_sentence():
    said = [*advice.ADVICE.values()]
    said += [*advice.BLOCKERS.values(), *(blocker.doc for blocker in Blocker)]
    assert [text for text in said if not (text[0].isupper() and text[-1] == '.')] == []

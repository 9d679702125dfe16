# SPDX-License-Identifier: Apache-2.0
"""Why one node of a host cannot take one node of a guest."""

from __future__ import annotations

from novasched.scheduler.fit.refused import Refused
from novasched.scheduler.reasons import Code


def test_numbers_are_apart_and_in_the_text():
    refused = Refused.too_few(Code.NOT_ENOUGH_PAGES, 3, 4, 'pages')
    assert refused == (Code.NOT_ENOUGH_PAGES, '3 of 4 pages', '3', '4')


def test_less_than_nothing_is_told_as_nothing():
    assert Refused.too_few(Code.NOT_ENOUGH_PAGES, -3, 4, 'pages').have == '0'

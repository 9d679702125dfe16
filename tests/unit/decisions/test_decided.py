# SPDX-License-Identifier: Apache-2.0
"""Which reason of a stage is that of a host."""

from novasched.decisions.decided import PLACEMENT, Stage, StageReason, reasons_of

MANY = StageReason('exhausted', count=240, example='cmp-118')
ALONE = StageReason('disabled', count=1, example='cmp-300')
OTHERS = StageReason('trait-missing', count=3, example='cmp-200')


def of(host, *reasons):
    return reasons_of([Stage(PLACEMENT, 312, 31, reasons)], PLACEMENT, host)


def test_an_example_has_its_own_reason():
    assert of('cmp-200', MANY, ALONE, OTHERS) == ([OTHERS], True)


def test_one_that_is_no_example_has_one_of_several():
    assert of('cmp-150', MANY, OTHERS) == ([MANY, OTHERS], False)


def test_reason_of_one_host_applies_to_no_other():
    assert of('cmp-150', MANY, ALONE, OTHERS) == ([MANY, OTHERS], False)
    assert of('cmp-150', MANY, ALONE) == ([MANY], True)


def test_another_stage_says_nothing():
    assert reasons_of([], 'RAMFilter', 'cmp-1') == ([], False)

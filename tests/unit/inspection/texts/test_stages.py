# SPDX-License-Identifier: Apache-2.0
"""Which reason of a stage is that of a host."""

from novasched.inspection.texts import stages


def reason(code, count, example=''):
    return {'code': code, 'what': '', 'text': '', 'count': count, 'example': example}


MANY = reason('exhausted', 240, 'cmp-118')
ALONE = reason('disabled', 1, 'cmp-300')
OTHERS = reason('trait-missing', 3, 'cmp-200')


def of(host, *reasons):
    made = [{'name': stages.PLACEMENT, 'in': 312, 'out': 31, 'reasons': list(reasons)}]
    return stages.reasons_of(made, stages.PLACEMENT, host)


def test_an_example_has_its_own_reason():
    assert of('cmp-200', MANY, ALONE, OTHERS) == ([OTHERS], True)


def test_one_that_is_no_example_has_one_of_several():
    assert of('cmp-150', MANY, OTHERS) == ([MANY, OTHERS], False)


def test_reason_of_one_host_applies_to_no_other():
    assert of('cmp-150', MANY, ALONE, OTHERS) == ([MANY, OTHERS], False)
    assert of('cmp-150', MANY, ALONE) == ([MANY], True)


def test_another_stage_says_nothing():
    assert stages.reasons_of([], 'RAMFilter', 'cmp-1') == ([], False)

# SPDX-License-Identifier: Apache-2.0
"""Differences of policies, paired by part."""

import pytest

from novasched.policy_lab import intervals
from novasched.policy_lab.results import PartResult, Series


def result(policy, part, **figures):
    values = {'refused_percent': 0.0, 'refused_vcpus_percent': 0.0, **figures}
    return PartResult(
        policy, part, 5, 1, 1, 1.0, values, [], Series([], {}, {}), 0, 0.0
    )


def test_interval_is_of_paired_differences():
    found = intervals.difference([(1.0, 2.0), (5.0, 7.0), (3.0, 6.0)])
    assert found.mean == 2.0
    assert found.within == pytest.approx(4.303 * 1.0 / 3**0.5)


def test_one_part_has_no_interval():
    assert intervals.difference([(1.0, 3.0)]).within is None


def test_rows_have_means_and_differences_to_the_first():
    parts = [
        result('now', 1, empty_percent=1.0),
        result('now', 2, empty_percent=3.0),
        result('pack', 2, empty_percent=6.0),
        result('pack', 1, empty_percent=2.0),
    ]
    row = next(r for r in intervals.rows(parts) if r.name == 'empty_percent')
    assert row.means == {'now': 2.0, 'pack': 4.0}
    assert row.differences['pack'].mean == 2.0


def test_figure_that_a_part_lacks_has_no_mean():
    parts = [result('now', 1, first_refusal_s=5.0), result('now', 2)]
    row = next(r for r in intervals.rows(parts) if r.name == 'first_refusal_s')
    assert row.means == {'now': None}


@pytest.mark.parametrize(('refused', 'names'), [(2.9, []), (3.1, ['pack'])])
def test_policies_of_another_load_are_named(refused, names):
    parts = [
        result('now', 1, refused_percent=2.0),
        result('pack', 1, refused_percent=refused),
    ]
    assert intervals.overloaded(parts) == names

# SPDX-License-Identifier: Apache-2.0
"""Random guests on random hosts, fitted and booked by nova and by us.

``--seeds N`` makes N fits; ``--seed S --seeds 1`` makes the fit of seed S, which is
always the same one.
"""

import json

import pytest

from tests.differential import ours_fits
from tests.differential.fits import fit

SEEDS = range(300)
FILTERS = ('PciPassthroughFilter', 'NUMATopologyFilter', 'both')


@pytest.fixture(scope='module')
def made():
    """The fits of some seeds."""
    return [fit(seed) for seed in SEEDS]


def test_both_fit_alike(fit_comparison, fit_seeds):
    report = fit_comparison.check(fit_seeds)
    if report:
        pytest.fail(report, pytrace=False)


def test_a_seed_makes_the_same_fit_again():
    assert fit(5) == fit(5)
    assert fit(5) != fit(6)


@pytest.mark.exhaustive('of the fits, not of what decides on them')
def test_a_fit_that_is_saved_stays_the_same(made):
    for case in made:
        assert json.loads(json.dumps(case)) == case


@pytest.mark.exhaustive('of the fits, not of what decides on them')
def test_fits_make_every_filter_say_yes_and_no_and_drop_candidates(made):
    cases = [case for case in made if case['limits']]
    answers = [(case, ours_fits.answers(case, 'nova')[0][0]) for case in cases]
    for name in FILTERS:
        said = {
            len(found['filters'][name]['candidates'])
            - len(case['allocation_candidates'])
            for case, found in answers
        }
        assert said >= {0, -1, -2}, name
    instances = {len(found['sequence']) for _, found in answers}
    assert instances == {1, 2, 3, 4}


@pytest.mark.exhaustive('of the fits, not of what decides on them')
def test_fits_ask_for_all_that_guests_may(made):
    cells = [
        cell['nova_object.data']
        for case in made
        if case['instance_numa_topology']
        for cell in case['instance_numa_topology']['nova_object.data']['cells']
    ]
    asked = {
        name: {cell[name] for cell in cells}
        for name in ('cpu_policy', 'cpu_thread_policy', 'pagesize')
    }
    assert asked == {
        'cpu_policy': {None, 'shared', 'dedicated', 'mixed'},
        'cpu_thread_policy': {None, 'prefer', 'require', 'isolate'},
        'pagesize': {None, -1, -2, -3, 4, 64, 2048, 1048576},
    }

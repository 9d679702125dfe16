# SPDX-License-Identifier: Apache-2.0
"""Random requests, decided by the release's own classes and by ours by its rules."""

from __future__ import annotations

import pytest

from novasched.releases import NEWEST
from tests.differential import queries, specs
from tests.differential.comparison import Comparison
from tests.differential.fit_comparison import FitComparison
from tests.differential.peer import Peer
from tests.differential.test_prefilters import answers_to, our_answer
from tests.differential.test_query import compare

SINCE = {
    'hw_firmware_stateless': (1, 38),
    'hw_vif_model=igb': (1, 39),
    'img_hv_requested_version': (1, 39),  # other ones would be refused before nova 31
    'hw_sound_model': (1, 40),
    'hw_mem_encryption_model': (1, 42),
    'hw_mem_encryption_model=amd-sev-snp': (1, 43),
    'hw_mem_encryption_model=intel-tdx': (1, 44),
}
"""The version of image properties since which there is one, or a value of it."""
IGNORED = ('hw:sound_model',)
"""Extra specs that a release does not know, and that it may meet all the same."""


def known(given, release):
    """Return the extra specs or properties that a release knows."""

    def is_known(name, value):
        name = name.replace(':', '_')
        since = max(SINCE.get(each, (0, 0)) for each in (name, f'{name}={value}'))
        return since <= release.image_props

    return {
        name: value
        for name, value in (given or {}).items()
        if name in IGNORED or is_known(name, value)
    }


@pytest.fixture
def peer(tmp_path):
    """Start one of the programs that decide with the release's classes."""
    running = []

    def start(program, *asked):
        running.append(Peer(tmp_path, f'peer_{program}.py', *asked))
        return running[0]

    yield start
    for each in running:
        each.close()


class KnownComparison(Comparison):
    """Clouds whose image has the properties that the release knows."""

    release = None

    def cloud(self, seed):
        made = super().cloud(seed)
        asked = made['request']
        asked['image'] = asked['image'] and known(asked['image'], self.release)
        return made


def test_filters_and_weighers_decide_alike(peer, release):
    comparison = KnownComparison(peer('decisions'))
    comparison.release = release
    report = comparison.check(range(100))
    assert not report, report


def test_guests_fit_alike(peer):
    report = FitComparison(peer('fits', 'fits')).check(range(300))
    assert not report, report


def test_placement_is_asked_alike(peer, release):
    made = [queries.request(seed) for seed in range(300)]
    for asked in made:
        flavor = asked['flavor']
        flavor['extra_specs'] = known(flavor['extra_specs'], release)
        image = asked['image'] = known(asked['image'], release)
        if image.get('hw_firmware_type') != 'uefi' and release is not NEWEST:
            # Before nova 34 this is refused; then it is ignored, as by us.
            image.pop('hw_firmware_stateless', None)
    _, found = compare(peer('queries'), made)
    assert not found, f'{len(found)} differ: {found[0]}'


def test_prefilters_add_alike(tmp_path, release):
    made = [specs.spec(seed) for seed in range(300)]
    for spec in made:
        spec['extra_specs'] = known(spec['extra_specs'], release)
        spec['properties'] = known(spec['properties'], release)
    theirs = answers_to(made, tmp_path)
    found = [
        f'{spec}: nova {their}, we {ours}'
        for spec, their in zip(made, theirs, strict=True)
        if (ours := our_answer(spec, release)) != their
    ]
    assert not found, f'{len(found)} differ: {found[0]}'

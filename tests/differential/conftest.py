# SPDX-License-Identifier: Apache-2.0
"""How many clouds and fits, from which seed, and what came of it."""

import collections
import random

import pytest

from tests.differential import queries
from tests.differential.comparison import Comparison
from tests.differential.fit_comparison import FitComparison
from tests.differential.peer import Peer

CLOUDS = 2000
FITS = 5000
QUERIES = 500
SEED = 1  # the same clouds for everybody; look for others with --seed -1
IN_ONE_TEST = 50
MORE = pytest.mark.exhaustive('more random examples')
FIRST_SEED = pytest.StashKey()
TALLY = pytest.StashKey()
FITTED = pytest.StashKey()


def pytest_addoption(parser):
    group = parser.getgroup('differential', 'random clouds and fits, nova beside us')
    group.addoption(
        '--seeds',
        type=int,
        help='how many clouds and fits to make, one of each seed '
        f'(default: {CLOUDS} clouds and {FITS} fits)',
    )
    group.addoption(
        '--seed',
        type=int,
        default=SEED,
        help='the first seed; -1: any, and the run prints which (default: %(default)s)',
    )


def pytest_configure(config):
    seed = config.getoption('seed', SEED)
    config.stash[FIRST_SEED] = random.randrange(10**9) if seed < 0 else seed
    config.stash[TALLY] = {}
    config.stash[queries.TALLY] = collections.Counter()
    config.stash[FITTED] = None


def pytest_generate_tests(metafunc):
    """Give each test of `seeds` a part of them; the name of a part stays."""
    counts = {'seeds': CLOUDS, 'fit_seeds': FITS, 'query_seeds': QUERIES}
    for name, default in counts.items():
        if name not in metafunc.fixturenames:
            continue
        # The options are unknown to a run of the whole suite.
        wanted = metafunc.config.getoption('seeds', None)
        count = wanted or default
        first = metafunc.config.stash[FIRST_SEED]
        metafunc.parametrize(
            name,
            [
                pytest.param(
                    range(first + start, first + min(start + IN_ONE_TEST, count)),
                    id=f'part {start // IN_ONE_TEST + 1}',
                    marks=[] if wanted or start < default // 10 else MORE,
                )
                for start in range(0, count, IN_ONE_TEST)
            ],
        )


@pytest.fixture(scope='session')
def peer(tmp_path_factory):
    """The process that decides with nova."""
    peer = Peer(tmp_path_factory.mktemp('peer'))
    yield peer
    peer.close()


@pytest.fixture(scope='session')
def comparison(peer, request):
    """Clouds through both sides; it counts them for the summary."""
    made = Comparison(peer)
    request.config.stash[TALLY] = made.tally
    return made


@pytest.fixture(scope='session')
def fit_comparison(tmp_path_factory, request):
    """Fits through both sides; nova's is a process of its own."""
    peer = Peer(tmp_path_factory.mktemp('peer'), 'peer_fits.py', 'fits')
    made = FitComparison(peer)
    request.config.stash[FITTED] = made
    yield made
    peer.close()


def pytest_terminal_summary(terminalreporter, config):
    asked = config.stash[queries.TALLY]
    if asked['requests']:
        terminalreporter.write_line(
            f'differential: {asked["requests"]} requests compared with nova '
            f'{asked["version"]}, {asked["queries"]} queries and {asked["refused"]} '
            f'refusals, --seed {config.stash[FIRST_SEED]}'
        )
    tally = config.stash[TALLY]
    if tally and tally['clouds']:
        mended = {key: count for key, count in tally.items() if key.startswith('Q')}
        quirks = ', '.join(f'{name} on {mended[name]}' for name in sorted(mended))
        terminalreporter.write_line(
            f'differential: {tally["clouds"]} clouds, {tally["decisions"]} decisions '
            f'compared with nova {tally["version"]} ({tally["filters"]} filters, '
            f'{tally["weighers"]} weighers), --seed {config.stash[FIRST_SEED]}; '
            f'other verdicts than nova: {quirks or "none"}'
        )
    fitted = config.stash[FITTED]
    if fitted and fitted.tally['fits']:
        found = sorted(fitted.defects.items())
        by = ', '.join(f'{name} on {count}' for name, count in found)
        terminalreporter.write_line(
            f'differential: {fitted.tally["fits"]} fits, {fitted.tally["placed"]} '
            f'instances placed by nova {fitted.tally["version"]}, '
            f'--seed {config.stash[FIRST_SEED]}; of which '
            f'{fitted.defects.total()} differ by {by or "nothing"}'
        )

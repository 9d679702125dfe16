# SPDX-License-Identifier: Apache-2.0
"""What holds for every test: hypothesis judges results, not the machine's speed,
nothing is kept in a home, and log records are those of our programs."""

import gc
import itertools
import logging
import os

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

# First of all: it chooses threads, and the libraries keep to that.
import novasched  # noqa: F401
from novasched import printable
from novasched.rpc import oslo_internals
from tests.live.servers.forks import CLOSED_S
from tests.support.suite.progress import Progress

printable.in_logs()
# Each connection to MariaDB would read the authorities of the machine, for 50 ms.
os.environ['SSL_CERT_FILE'] = os.devnull
oslo_internals.amqpdriver.ACK_REQUEUE_EVERY_SECONDS_MAX = CLOSED_S
PROFILES = {'quick': 25, 'all': 100, 'hours': 3000}
"""Examples of a property that names no number; see tests/support/tables/examples.py."""
TOGETHER = {
    'tests/browser/test_accessible.py': 'a console',
    'tests/browser/test_pages.py': 'a console',
    'tests/live/test_cells.py': 'three cells',
    'tests/live/test_database_faults.py': 'three cells',
    'tests/live/test_flow.py': 'four hosts',
    'tests/live/test_plan.py': 'four hosts',
    'tests/live/test_peer_conductor.py': "the peer's cloud",
    'tests/live/test_printed_commands.py': "the peer's cloud",
    'tests/live/test_replacement.py': "the peer's cloud",
    'tests/live/test_shadow.py': "the peer's cloud",
    'tests/matrix/test_moves.py': 'the oldest release',
    'tests/matrix/test_release.py': 'the oldest release',
}
"""Files that share a dear fixture for the session."""
FOLDERS = ('tests/live', 'tests/faults')
"""Of the first tier one process has all tests of such a folder, which share servers and
clouds. Each takes less than half of the time, if it is begun first."""
for name, count in PROFILES.items():
    # A machine that judges a change gets the same examples every time.
    hypothesis.settings.register_profile(
        name,
        max_examples=count,
        deadline=None,
        print_blob=True,
        derandomize='CI' in os.environ,
    )


def pytest_configure(config):
    """Choose before a test file is read how many examples its properties go through."""
    profile = 'all' if config.getoption('--all') else 'quick'
    hypothesis.settings.load_profile(os.environ.get('NOVASCHED_EXAMPLES') or profile)
    if not hasattr(config, 'workerinput'):
        config.pluginmanager.register(Progress(config), 'progress')


class ByFile(LoadFileScheduling):
    """Gives a process the tests of a file, or of files that share a dear fixture."""

    def _split_scope(self, nodeid):
        path = super()._split_scope(nodeid)
        folder = path.rpartition('/')[0]
        if folder in FOLDERS and is_first_tier(self.config):
            return folder
        return TOGETHER.get(path, path)


def is_first_tier(config):
    """Whether these are the tests of `tools/test` without arguments."""
    is_whole = config.args_source is not pytest.Config.ArgsSource.ARGS
    return is_whole and not config.getoption('--all')


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Keep together what shares a dear fixture."""
    return ByFile(config, log) if config.option.dist == 'loadfile' else None


@pytest.fixture(scope='session', autouse=True)
def state_directory(tmp_path_factory):
    """Keeps what any scheduler of the tests writes out of the home of its user."""
    with pytest.MonkeyPatch.context() as patch:
        made = tmp_path_factory.mktemp('state')
        patch.setenv('STATE_DIRECTORY', str(made))
        yield made


_numbers = itertools.count()


@pytest.fixture(autouse=True)
def state_directory_of_test(state_directory):
    """Keeps what the scheduler of a test writes from the tests that come after it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('STATE_DIRECTORY', str(state_directory / str(next(_numbers))))
        yield


@pytest.fixture(autouse=True)
def log_records_as_before():
    """Take back what a program does to all log records of its process."""
    level = logging.getLogger().level
    yield
    printable.in_logs()
    logging.getLogger().setLevel(level)


@pytest.fixture
def logging_as_before():
    """Take back the handlers that a program leaves with the root logger."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    for handler in root.handlers[:]:
        if handler not in before:
            handler.close()
    root.handlers[:] = before
    root.setLevel(level)


SLOW = (
    'live', 'faults', 'matrix', 'differential', 'browser', 'lab', 'properties',
    'functional'
)  # fmt: skip
"""Directories that have files of minutes: their tests start servers, a browser or a
nova, or go through hundreds of examples each."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leave out what only all tests have, but for what is named itself. Start slow
    tests first, so that processes side by side end at the same time."""
    if not config.getoption('--all') and not any('::' in name for name in config.args):
        left_out = [item for item in items if item.get_closest_marker('exhaustive')]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [each for each in items if not each.get_closest_marker('exhaustive')]
    items.sort(key=_turn)


def _turn(item):
    """Return a low number for tests that are to begin early."""
    parts = item.path.parts
    found = [number for number, name in enumerate(SLOW) if name in parts]
    return min(found, default=len(SLOW))


@pytest.fixture(scope='module', autouse=True)
def frozen():
    """Let the collector of garbage pass over what is there when a file begins: it is
    imported, and lasts. To look at it again and again takes a tenth of the time."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser):
    parser.addoption(
        '--all', action='store_true', help='run what tools/test leaves out, too'
    )
    parser.addoption(
        '--regold', action='store_true', help='accept our decisions as golden ones'
    )
    parser.addoption(
        '--soak-minutes',
        type=float,
        help='for how long tests/faults/test_soak.py does harm at random: a fifth of a '
        'minute, half a minute with --all, as long as this says',
    )

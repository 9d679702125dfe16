# SPDX-License-Identifier: Apache-2.0
"""A manager on fakes."""

from novasched.manager.attempts import RequestAttempts
from novasched.manager.candidate_query import QueryPolicy
from novasched.manager.manager import SchedulerManager
from tests.support.clouds import factories
from tests.support.clouds.fakes import (
    FakeDriver,
    FakeNetwork,
    FakeNotifier,
    FakePlacement,
    FakeView,
)


def make_manager(
    driver=None,
    view=None,
    placement=None,
    notifier=None,
    policy=None,
    network=None,
    log=None,
    **more,
):
    """Return a manager; each part that is not given is a fake."""
    attempts = RequestAttempts(
        driver or FakeDriver(),
        view or FakeView(factories.hosts()),
        placement or FakePlacement('uuid-h1'),
        notifier or FakeNotifier(),
        policy or QueryPolicy(()),
        network or FakeNetwork(),
        **more,
    )
    return SchedulerManager(attempts, log)

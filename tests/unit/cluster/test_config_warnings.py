# SPDX-License-Identifier: Apache-2.0
import logging

import pytest

from novasched.cluster.aggregates import AggregateView, ConfigWarnings
from novasched.scheduler.filters.host_limit import AggregateIoOpsFilter
from novasched.scheduler.pipeline import Profile
from tests.support.clouds import factories

GOOD = factories.aggregate(1, ['h1'], max_io_ops_per_host='5')
BAD = factories.aggregate(1, ['h1'], max_io_ops_per_host='many')


@pytest.fixture
def aggregates():
    return AggregateView()


@pytest.fixture
def config_warnings(aggregates):
    profile = Profile(filters=(AggregateIoOpsFilter(limit=8),), weighers=())
    return ConfigWarnings(profile, aggregates)


def test_odd_value_is_logged_once_until_mended(aggregates, config_warnings, caplog):
    caplog.set_level(logging.INFO, 'novasched.cluster.aggregates')
    for aggregate in (GOOD, BAD, BAD, GOOD, BAD):
        aggregates.update([aggregate])
        config_warnings.log()
    assert [record.levelname for record in caplog.records] == ['WARNING', 'WARNING']
    assert 'Could not decode max_io_ops_per_host' in caplog.messages[0]


def test_unchanged_aggregates_are_not_checked_again(aggregates, caplog):
    asked = []

    class Asked(AggregateIoOpsFilter):
        def config_warnings(self, groups):
            asked.append(groups)
            return []

    config_warnings = ConfigWarnings(Profile((Asked(),), ()), aggregates)
    config_warnings.log()
    config_warnings.log()
    aggregates.update([GOOD])
    config_warnings.log()
    assert asked == [[], [(GOOD,)]]

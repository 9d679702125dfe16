# SPDX-License-Identifier: Apache-2.0
"""What the databases answer says how they are."""

import pytest

from novasched import errors
from novasched.observability.health import FAIL, PASS, WARN, Health
from novasched.observability.instrumentation import (
    InstrumentedApiStore,
    InstrumentedServiceStore,
)
from tests.support.clouds.fakes import FakeClock
from tests.support.tables.cases import cases

GONE = errors.StoreFailed('nova_api at db1', 'gone')


class Store:
    """Answers every call with what it was given, or raises it."""

    def __init__(self, answer):
        self.answer = answer

    def __getattr__(self, name):
        def call(*arguments):
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        return call


@pytest.fixture
def health():
    return Health(FakeClock())


def test_every_call_to_the_api_database_is_news(health):
    inner = Store(['answer'])
    store = InstrumentedApiStore(inner, health)
    assert store.cells() == ['answer']
    assert health.checks()['api_db'].status == PASS
    inner.answer = GONE
    for expected in (WARN, FAIL):
        with pytest.raises(errors.StoreFailed):
            store.host_cell('h1')
        found = health.checks()['api_db']
        assert (found.status, found.output) == (expected, str(GONE))


class Row:
    uuid = 'service-uuid'


def test_the_uuid_of_the_services_row_is_the_id_of_the_service(health):
    services = InstrumentedServiceStore(Store((Row, True)), health)
    assert services.register('h', 'nova-scheduler', 'scheduler', 74) == (Row, True)
    assert health.service_id == 'service-uuid'
    assert health.checks() == {}


@cases(
    'answer, expected',
    ('a beat', True, PASS),
    ('the row is gone', False, FAIL),
    ('a failure', GONE, WARN),
)
def test_heartbeats_are_news(health, answer, expected):
    services = InstrumentedServiceStore(Store(answer), health)
    if isinstance(answer, Exception):
        with pytest.raises(errors.StoreFailed):
            services.beat(1, 2)
    else:
        assert services.beat(1, 2) is answer
    assert health.checks()['heartbeat'].status == expected

# SPDX-License-Identifier: Apache-2.0
"""Services are probed when news of them are missing; options are read."""

import pytest

from novasched import errors
from novasched.observability.health import FAIL, PASS, WARN, Health, Probe
from novasched.observability.settings import Settings
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases


class Placement:
    """Answers probes; an answer that is an error is raised."""

    def __init__(self):
        self.answer = None
        self.asked = 0

    def __call__(self):
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def health(clock):
    return Health(clock)


@pytest.fixture
def placement():
    return Placement()


def test_probe_asks_only_a_silent_service(health, clock, placement):
    probe = Probe('placement', placement)
    probe.run(health)
    probe.run(health)
    assert placement.asked == 1
    clock.advance(150)
    probe.run(health)
    assert placement.asked == 2
    assert health.checks()['placement'].status == PASS


def test_failing_service_is_probed_until_it_works(health, placement):
    probe = Probe('placement', placement)
    placement.answer = 'HTTP 503'
    for expected in (WARN, FAIL, FAIL):
        probe.run(health)
        assert health.checks()['placement'].status == expected
    placement.answer = errors.OptionError('[placement]', 'no such user', 'Correct it.')
    probe.run(health)
    assert 'no such user' in health.checks()['placement'].output
    placement.answer = None
    probe.run(health)
    assert health.checks()['placement'].status == PASS


def test_some_are_always_asked(health, placement):
    probe = Probe('message_bus', placement, always=True)
    probe.run(health)
    probe.run(health)
    assert placement.asked == 2


@cases(
    'options, expected',
    ('defaults', {}, (300, 300)),
    ('kept as long as news count', {'ttl': 60}, (60, 60)),
    ('not kept', {'ttl': 60, 'cache_control': -1}, (60, -1)),
)
def test_the_options_are_read(options, expected):
    conf = make_conf()
    for name, value in options.items():
        conf.set_override(name, value, 'healthcheck')
    found = Settings.from_conf(conf, 'ctl1', 'nova-scheduler')
    assert (found.ttl_s, found.max_age_s) == expected
    assert (found.threads, found.patience_s) == (64, 60)

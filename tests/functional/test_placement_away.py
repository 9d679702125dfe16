# SPDX-License-Identifier: Apache-2.0
"""Commands while placement is away, or refuses what it is asked: they say so in its
words."""

from __future__ import annotations

import pytest
import requests

from novasched import errors
from novasched.commands.capacity import CountCapacity
from novasched.commands.host import ShowHost
from novasched.commands.plan import PlanBoot
from novasched.commands.why_not import WhyNot
from novasched.inspection import session
from tests.functional.conftest import Host
from tests.functional.test_capacity import sources
from tests.unit.commands import played

FLAVOR = ('--flavor', 'vcpus=1,ram=512,disk=1')
CHANGE = ('--what-if', 'disable h2')
COMMANDS = {
    'plan boot': (PlanBoot, FLAVOR),
    'plan boot --what-if': (PlanBoot, (*FLAVOR, *CHANGE)),
    'why-not': (WhyNot, ('h1', *FLAVOR)),
    'capacity': (CountCapacity, FLAVOR),
    'host': (ShowHost, ('h1',)),
}
BODY = b'{"errors": [{"status": 503, "title": "Busy", "detail": "It hurts.\\n\\n"}]}'


def refused(request, send):
    answer = send()
    answer.close()
    answer.status_code, answer._content = 503, BODY
    return answer


def away(request, send):
    raise requests.ConnectionError('[Errno 111] Connection refused')


FAULTS = {'away': (away, 'Connection refused'), 'refusing': (refused, 'It hurts.')}


@pytest.fixture
def made(cloud):
    return cloud([Host('h1'), Host('h2')], DEFAULT={'state_path': '/nonexistent'})


def break_placement(made, do):
    for number in range(1, 1000):
        made.faults.on('GET', number, do)


@pytest.mark.parametrize('fault', FAULTS)
@pytest.mark.parametrize('name', COMMANDS)
def test_commands(made, name, fault):
    kind, words = COMMANDS[name]
    do, said = FAULTS[fault]

    class Here(kind):
        """The command, on the cloud of the test."""

        def inspection(self, seed=None, what_if=None):
            return session.opened(made.conf, what_if=what_if, sources=sources(made))

    break_placement(made, do)
    with pytest.raises(errors.NovaschedError, match=said) as raised:
        played.run(Here, *words, form='text')
    assert 'lacement' in str(raised.value)
    assert '"detail"' not in str(raised.value)

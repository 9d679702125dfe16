# SPDX-License-Identifier: Apache-2.0
"""Explanations of what a scheduler decided on servers that were booted."""

from __future__ import annotations

import pytest

from lab.tests.functional.api import Whole, emptied
from lab.tests.functional.api import run as run_lab
from lab.tests.functional.test_plan import HOSTS, SMALL, plan
from novasched.commands.base import ANSWERED
from novasched.commands.explain import ExplainDecision
from novasched_lab.commands.command import wait
from novasched_lab.commands.servers import BootServers
from tests.golden.explain.test_schema import VALIDATOR

WRITTEN_S = 30.0


@pytest.fixture(scope='module')
def shared(module_cloud):
    return Whole(module_cloud([]), {'hosts': HOSTS, 'rules': []})


@pytest.fixture
def whole(shared):
    """The cloud that tests share, as it was made; it is left so."""
    with emptied(shared) as made:
        yield made


@pytest.fixture
def explain(whole):
    """Run the command once its answer is there: records are written a little later."""

    class Explain(ExplainDecision):
        """The command, with the configuration of the test."""

        def configuration(self, opts):
            return whole.conf

    def ask(*words, until=lambda answer: answer['id'], form='json'):
        found = []

        def look():
            found[:] = plan(whole, Explain, *words)
            VALIDATOR.validate(found[1])
            return until(found[1])

        assert wait(look, WRITTEN_S), found
        return plan(whole, Explain, *words, form=form)

    return ask


def test_a_server_that_was_placed(whole, explain):
    words = (*SMALL, '--group', 'web', '--policy', 'anti-affinity')
    _, (booted,), _ = run_lab(whole, BootServers, 'web', *words)
    code, made, said = explain('web')
    assert (code, said) == (ANSWERED, '')
    assert (made['result'], made['picked']) == ('scheduled', booted['Host'])
    assert made['server_name'] == 'web'
    (server,) = made['servers']
    assert server['uuid'] == booted['ID']
    assert len(server['alternates']) == 2
    assert made['margin']['over'] != booted['Host']
    assert made['known'] == 6
    _, text, _ = explain(booted['ID'], form='text')
    assert f'SCHEDULED on {booted["Host"]}' in text
    assert '<- selected' in text


def test_a_flavor_that_is_too_large(whole, explain):
    flavor = ('--flavor', 'vcpus=1,ram=99999,disk=1')
    _, (booted,), _ = run_lab(whole, BootServers, 'huge', *flavor)
    assert booted['Status'] == 'ERROR'

    def is_diagnosed(answer):
        return answer['id'] and answer['diagnosis'] != 'waiting'

    code, made, _ = explain('huge', until=is_diagnosed)
    assert code == ANSWERED
    assert (made['result'], made['blocker']) == ('unschedulable', 'no-candidates')
    (stage,) = made['stages']
    assert (stage['name'], stage['in'], stage['out']) == ('placement', 6, 0)
    assert sum(reason['count'] for reason in stage['reasons']) == 6
    _, text, _ = explain('huge', form='text')
    assert 'Hosts   6 -> 0' in text
    assert 'Blocked by placement' in text


def test_each_server_of_a_request_for_several_has_its_own_decision(whole, explain):
    _, booted, _ = run_lab(whole, BootServers, 'many', *SMALL, '--count', '4')
    for each in booted:
        _, made, _ = explain(each['ID'])
        assert made['picked'] == each['Host']
        assert made['servers'][made['index']]['uuid'] == each['ID']


def test_a_host_then_and_now(whole, explain):
    zone = ('--availability-zone', 'zone-cell1')
    run_lab(whole, BootServers, 'web', *SMALL, *zone)
    _, made, said = explain('web', '--host', 'cell2-h1')
    assert said == ''
    assert made['of_host']['outcome'] == 'placement'
    assert not made['now']['fits']
    _, text, _ = explain('web', '--host', 'cell1-h1', form='text')
    assert 'Then    passed all filters, rank ' in text
    assert 'Now     it would be taken, rank ' in text

# SPDX-License-Identifier: Apache-2.0
"""Explanations of what a scheduler decided on servers that were booted."""

import pytest

from lab.tests.functional.api import Whole, emptied
from lab.tests.functional.api import run as run_lab
from lab.tests.functional.test_plan import HOSTS, SMALL, plan
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

    def ask(*words, form='json'):
        found = []

        def look():
            found[:] = plan(whole, Explain, *words)
            VALIDATOR.validate(found[1])
            return found[1]['id']

        assert wait(look, WRITTEN_S), found
        return plan(whole, Explain, *words, form=form)

    return ask


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

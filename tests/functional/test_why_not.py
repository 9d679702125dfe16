# SPDX-License-Identifier: Apache-2.0
"""Why a host is not taken, and which servers hold what it lacks."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest

from novasched.commands.why_not import WhyNot
from novasched.inspection import session
from novasched.scheduler.weighers import Weigher
from tests.functional import test_plugins_misbehave
from tests.functional.test_capacity import sources
from tests.functional.test_host import made as hosts_with_servers
from tests.unit.commands import played

made = hosts_with_servers
GUEST = 'vcpus=2,ram=4096,disk=1,hw:mem_page_size=1GB'


@pytest.fixture
def why_not(made):
    """Run the command: `why_not(*words)`."""
    filters = ['ComputeFilter', 'NUMATopologyFilter']
    made.conf.set_override('enabled_filters', filters, 'filter_scheduler')

    class Here(WhyNot):
        """The command, on the cloud of the test."""

        @contextlib.contextmanager
        def inspection(self, seed=None, what_if=None):
            with session.opened(made.conf, sources=sources(made)) as opened:
                yield opened

    return lambda *words, form='json': played.run(Here, *words, form=form)


def test_servers_that_hold_what_a_host_lacks_are_named(why_not):
    code, answer, _ = why_not('h1', '--flavor', GUEST)
    failing = {c['name']: c['code'] for c in answer['conditions'] if not c['passes']}
    assert (code, failing) == (3, {'NUMATopologyFilter': 'numa-does-not-fit'})
    assert answer['held_by']['holding'] == 'pages'
    assert [each['name'] for each in answer['held_by']['servers']] == ['db']
    _, text, _ = why_not('h1', '--flavor', GUEST, form='text')
    assert 'Pages: db has 2 since 2026-11-22T12:00:00Z: novasched host h1 ' in text


def test_a_host_that_only_the_request_leaves_out_lacks_nothing(why_not):
    words = ('--flavor', 'vcpus=1,ram=512,disk=1', '--availability-zone', 'az1')
    code, answer, _ = why_not('h2', *words)
    assert (code, answer['held_by']) == (3, None)
    assert not answer['conditions'][0]['passes']
    assert 'aggregate' in answer['conditions'][0]['text']


@pytest.mark.parametrize(
    ('flavor', 'failing'),
    [
        pytest.param('vcpus=1,ram=512,disk=1', ['Misbehaving'], id='asked by a boot'),
        pytest.param(
            'vcpus=1,ram=99999,disk=1', ['placement', 'Misbehaving'], id='not offered'
        ),
    ],
)
def test_a_filter_that_raises_is_a_condition_that_could_not_be_asked(
    made, why_not, flavor, failing
):
    plugin = f'{test_plugins_misbehave.__name__}.Misbehaving'
    made.conf.set_override('available_filters', [plugin], 'filter_scheduler')
    made.conf.set_override('enabled_filters', ['Misbehaving'], 'filter_scheduler')
    code, answer, _ = why_not('h1', '--flavor', flavor, '--hint', 'do=fail')
    failed = [each for each in answer['conditions'] if not each['passes']]
    assert (code, [each['name'] for each in failed]) == (3, failing)
    assert failed[-1]['code'] == 'rejected'
    assert failed[-1]['text'] == 'could not be asked: ZeroDivisionError: at h1'


class Endless(Weigher):
    """Gives one host more than any number."""

    def weigh(self, hosts, request):
        return np.where(hosts.host == 'h2', math.inf, 0.0)


def test_a_weight_that_is_no_number_is_null(made, why_not):
    weighers = [f'{__name__}.Endless']
    made.conf.set_override('weight_classes', weighers, 'filter_scheduler')
    flavor = ('--flavor', 'vcpus=1,ram=512,disk=1')
    asked = [why_not(host, *flavor)[:2] for host in ('h1', 'h2')]
    assert [code for code, _ in asked] == [0, 0]
    # What is no number keeps the order of placement's answer, which is any.
    [beaten] = [answer for _, answer in asked if answer['beaten_by']]
    assert (beaten['rank'], beaten['beaten_by']['by']) == (2, None)
    assert beaten['beaten_by']['weighers'] == {'Endless': None}

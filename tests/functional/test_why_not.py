# SPDX-License-Identifier: Apache-2.0
"""Why a host is not taken, and which servers hold what it lacks."""

import functools
import math

import numpy as np
import pytest

from novasched import errors
from novasched.commands.why_not import WhyNot
from novasched.scheduler.weighers import Weigher
from tests.functional import test_plugins_misbehave
from tests.functional.commands import run
from tests.functional.test_host import made as hosts_with_servers
from tests.support.tables.cases import cases

made = hosts_with_servers
GUEST = 'vcpus=2,ram=4096,disk=1,hw:mem_page_size=1GB'


@pytest.fixture
def why_not(made):
    """Run the command: `why_not(*words)`."""
    filters = ['ComputeFilter', 'NUMATopologyFilter']
    made.conf.set_override('enabled_filters', filters, 'filter_scheduler')

    return functools.partial(run, made, WhyNot)


def test_servers_that_hold_what_a_host_lacks_are_named(why_not):
    code, answer, _ = why_not('h1', '--flavor', GUEST)
    failing = {c['name']: c['code'] for c in answer['conditions'] if not c['passes']}
    assert (code, failing) == (3, {'NUMATopologyFilter': 'numa-does-not-fit'})
    assert answer['held_by']['holding'] == 'pages'
    assert [each['name'] for each in answer['held_by']['servers']] == ['db']
    _, text, _ = why_not('h1', '--flavor', GUEST, form='text')
    assert 'Pages: db has 2 since 2026-11-22T12:00:00Z: novasched host h1 ' in text


def test_demand_that_no_enabled_filter_checks_is_noted(made, why_not):
    words = ('h1', '--flavor', 'vcpus=1,ram=512,disk=1,hw:numa_nodes=1')
    assert why_not(*words)[1]['notes'] == []
    made.conf.set_override('enabled_filters', ['ComputeFilter'], 'filter_scheduler')
    assert (
        'Note    Flavor inline asks for hw:numa_nodes=1, which no enabled filter '
        'checks: add NUMATopologyFilter to [filter_scheduler] enabled_filters\n'
    ) in why_not(*words, form='text')[1]


def test_a_host_that_only_the_request_leaves_out_lacks_nothing(why_not):
    words = ('--flavor', 'vcpus=1,ram=512,disk=1', '--availability-zone', 'az1')
    code, answer, _ = why_not('h2', *words)
    assert (code, answer['held_by']) == (3, None)
    assert not answer['conditions'][0]['passes']
    assert 'aggregate' in answer['conditions'][0]['text']


@cases(
    'flavor, failing',
    ('asked by a boot', 'vcpus=1,ram=512,disk=1', ['Misbehaving']),
    ('not offered', 'vcpus=1,ram=99999,disk=1', ['placement', 'Misbehaving']),
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


def test_a_host_that_there_is_not(why_not):
    with pytest.raises(errors.UnknownHost, match='there is no host h9'):
        why_not('h9', '--flavor', 'vcpus=1,ram=512,disk=1')


def test_a_host_of_a_cell_that_is_away_is_no_error(why_not, tmp_path):
    path = tmp_path / 'cell2'
    path.rename(path.with_suffix('.away'))
    code, text, said = why_not('h2', '--flavor', 'vcpus=1,ram=512,disk=1', form='text')
    assert (code, text) == (4, '')
    assert 'there is no host h2' in said
    assert 'the hosts of cell2 are not known' in said


def test_a_cell_that_stops_answering_names_no_servers(why_not):
    code, answer, said = why_not('h1', '--flavor', GUEST, unreadable=['cell1'])
    assert (code, answer['held_by']) == (3, None)
    assert answer['cells_left_out'] == ['cell1']
    assert said == 'warning: cell1 stopped answering; its servers are not in this\n'


def test_as_if_the_cloud_were_another(why_not):
    words = ('h2', '--flavor', 'vcpus=2,ram=512,disk=1', '--seed', '7')
    assert why_not(*words)[0] == 0
    code, answer, _ = why_not(*words, '--what-if', 'disable h2')
    failing = {c['name']: c['code'] for c in answer['conditions'] if not c['passes']}
    assert (code, failing['ComputeFilter']) == (3, 'service-disabled')


def test_a_request_like_a_decision_that_there_is_not(why_not):
    code, text, said = why_not('h1', '--like', 'd-0000000000', form='text')
    assert (code, text) == (3, '')
    assert said == 'No record is kept of a decision d-0000000000.\n'

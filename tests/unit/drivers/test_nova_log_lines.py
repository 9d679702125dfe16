# SPDX-License-Identifier: Apache-2.0
"""Nova's log lines of a decision, at nova's levels."""

import logging
import random

import numpy as np
import pytest

from novasched.drivers.nova_log_lines import log_decision
from novasched.objects.compute_node import ComputeNode, ComputeNodeList
from novasched.objects.request_spec import SchedulerRetries
from novasched.scheduler.filters import BaseHostFilter, ColumnFilter
from novasched.scheduler.filters.legacy.overcommit import CoreFilter
from novasched.scheduler.filters.legacy.removed import RetryFilter
from novasched.scheduler.filters.numa_topology import NUMATopologyFilter
from novasched.scheduler.pipeline import Profile, decide
from novasched.scheduler.warnings import PluginWarning
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories
from tests.support.tables.cases import cases

LOGGER = 'novasched.drivers.nova_log_lines'
UUID = factories.INSTANCE


class Passing(BaseHostFilter):
    """Passes the hosts of a set."""

    def __init__(self, *names):
        self.names = names

    def host_passes(self, host_state, spec_obj):
        return host_state.host in self.names


class Second(Passing):
    """Another filter, for another name."""


@pytest.fixture
def lines(caplog):
    """Decide and log: `lines(level, filters, **request)` gives (level, text)."""

    def run(level, filters, index=0, **request):
        table = factories.hosts(free_ram_mb=[4000, 8000])
        profile = Profile(factories.adapted(filters), (RAMWeigher(),))
        chance = random.Random(1)
        decision = decide(profile, table, factories.request(**request), chance, index)
        caplog.clear()
        with caplog.at_level(level, LOGGER):
            log_decision(decision, set())
        return [(r.levelname, r.getMessage()) for r in caplog.records]

    return run


def shown(name, ram):
    return (
        f'({name}, {name}) ram: {ram}MB disk: 102400MB io_ops: 0 instances: 0, '
        'allocation_candidates: 0'
    )


def test_success_is_logged_only_at_debug(lines):
    assert lines(logging.INFO, [Passing('h1', 'h2')]) == []
    h1, h2 = shown('h1', 4000), shown('h2', 8000)
    assert lines(logging.DEBUG, [Passing('h1', 'h2')]) == [
        ('DEBUG', 'Starting with 2 host(s)'),
        ('DEBUG', 'Filter Passing returned 2 host(s)'),
        ('DEBUG', f'Filtered [{h1}, {h2}]'),
        (
            'DEBUG',
            "RAMWeigher: raw weights {('h1', 'h1'): 4000.0, ('h2', 'h2'): 8000.0}",
        ),
        (
            'DEBUG',
            "RAMWeigher: normalized weights {('h1', 'h1'): 0.5, ('h2', 'h2'): 1.0}",
        ),
        (
            'DEBUG',
            'RAMWeigher: score (multiplier * weight) '
            "{('h1', 'h1'): '1.0 * 0.5', ('h2', 'h2'): '1.0 * 1.0'}",
        ),
        (
            'DEBUG',
            f'Weighed [WeighedHost [host: {h2}, weight: 1.0], '
            f'WeighedHost [host: {h1}, weight: 0.5]]',
        ),
    ]


def test_the_filter_that_took_the_last_host_is_named(lines):
    removed = f"Filtering removed all hosts for the request with instance ID '{UUID}'."
    found = lines(logging.DEBUG, [Passing('h1'), Second()])
    assert found == [
        ('DEBUG', 'Starting with 2 host(s)'),
        ('DEBUG', 'Filter Passing returned 1 host(s)'),
        ('INFO', 'Filter Second returned 0 hosts'),
        ('DEBUG', 'Filter Passing rejected 1 host(s): rejected'),
        ('DEBUG', 'Filter Second rejected 1 host(s): rejected'),
        (
            'DEBUG',
            f"{removed} Filter results: [('Passing', [('h1', 'h1')]), "
            "('Second', None)]",
        ),
        (
            'INFO',
            f"{removed} Filter results: ['Passing: (start: 2, end: 1)', "
            "'Second: (start: 1, end: 0)']",
        ),
    ]


class First(Passing):
    """A filter for the first instance of a request alone."""

    run_filter_once_per_request = True


def test_filters_that_are_all_left_out_still_start(lines):
    found = lines(logging.DEBUG, [First()], index=1)
    assert found[0] == ('DEBUG', 'Starting with 2 host(s)')
    assert not any('Filter First' in text for _, text in found)


@cases('filters, index', ('there is none', [], 0), ('it was left out', [First()], 1))
def test_without_a_filter_and_hosts_nothing_is_named(lines, filters, index):
    removed = f"Filtering removed all hosts for the request with instance ID '{UUID}'."
    nowhere = factories.destination('h9')
    found = lines(logging.DEBUG, filters, index=index, requested_destination=nowhere)
    assert found[1:] == [
        ('DEBUG', 'Starting with 0 host(s)'),
        ('DEBUG', f'{removed} Filter results: []'),
        ('INFO', f'{removed} Filter results: []'),
    ]


class Twice(BaseHostFilter):
    """Gives each host twice."""

    def filter_all(self, hosts, spec_obj):
        return [host for host in hosts for _ in range(2)]


def test_a_warning_is_logged_once_for_each_request(caplog):
    profile, hosts = Profile(factories.adapted([Twice()]), ()), factories.hosts(2)
    decisions = [
        decide(profile, table, factories.request(), random.Random(1))
        for table in (hosts, hosts[[1, 0]])
    ]
    told = set()
    with caplog.at_level(logging.WARNING, LOGGER):
        for decision in decisions:
            log_decision(decision, told)
        log_decision(decisions[1], set())
    assert [r.getMessage() for r in caplog.records if r.name == LOGGER] == [
        'Twice gave more than once: h1, h2',
        'Twice gave more than once: h2, h1',
    ]


class Reasoned(Passing):
    """A filter that says why."""

    def why(self, host, request):
        return f'not one of {len(self.names)}'


class Speechless(Passing):
    """A filter that cannot say why."""

    def why(self, host, request):
        raise ValueError('no words')


@cases(
    'kind, said',
    ('grouped', Reasoned, 'Reasoned rejected 2 host(s): not one of 0'),
    (
        'a filter that raises',
        Speechless,
        'Speechless cannot say why: ValueError: no words',
    ),
)
def test_reasons_are_logged_if_no_host_is_left(lines, kind, said):
    assert ('DEBUG', f'Filter {said}') in lines(logging.DEBUG, [kind()])


def test_hosts_without_the_nodes_are_named_as_in_nova(lines):
    cell = factories.guest_cell()
    asked = {'numa_topology': factories.guest_topology(cell)}
    found = lines(logging.DEBUG, [NUMATopologyFilter()], **asked)
    assert [text for _, text in found if 'fails NUMA' in text] == [
        f'{name}, {name} fails NUMA topology requirements. reports no NUMA nodes'
        for name in ('h1', 'h2')
    ]


def test_failure_is_logged_at_info(lines):
    levels = [level for level, _ in lines(logging.INFO, [Passing()])]
    assert levels == ['INFO', 'INFO']


@cases(
    'request_, note',
    (
        'all ignored',
        {'ignore_hosts': ['h1', 'h2']},
        'Host filter ignoring hosts: h1, h2',
    ),
    (
        'an unknown host forced',
        {'force_hosts': ['h9']},
        "No hosts matched due to not matching 'force_hosts' value of 'h9'",
    ),
)
def test_where_no_filter_ran_the_notes_say_all(lines, request_, note):
    assert lines(logging.DEBUG, [Passing()], **request_) == [('INFO', note)]


def test_warnings_are_logged_at_their_level_once_for_a_request(caplog):
    tried = ComputeNode(host='h2', hypervisor_hostname='h2')
    retry = SchedulerRetries(num_attempts=1, hosts=ComputeNodeList(objects=[tried]))
    table = factories.hosts(vcpus_total=[0, 8])
    profile, request = Profile([CoreFilter(), RetryFilter()], ()), {'retry': retry}
    made = decide(profile, table, factories.request(**request), random.Random(1))
    told = set()
    with caplog.at_level(logging.INFO, LOGGER):
        log_decision(made, told)
        log_decision(made, told)
    assert [(r.levelname, r.message) for r in caplog.records] == [
        ('WARNING', 'VCPUs not set; assuming CPU collection broken: h1'),
        ('INFO', "Host ['h2', 'h2'] fails.  Previously tried hosts: [['h2', 'h2']]"),
    ]


def test_a_plugin_that_fails_to_warn_fails_no_request(lines):
    class Broken(ColumnFilter):
        def mask(self, hosts, request):
            return np.ones(len(hosts), bool)

        def request_warnings(self, before, after, request):
            yield PluginWarning('before it broke')
            raise RuntimeError('broken')

    assert lines(logging.INFO, [Broken()]) == [
        ('WARNING', 'Filter Broken fails to remark: RuntimeError: broken')
    ]


def test_attribute_of_a_nova_plugin_is_not_read_as_ours(lines):
    class Foreign(Passing):
        request_warnings = 'none of ours'

    assert len(lines(logging.INFO, [Foreign('h1')])) == 0

# SPDX-License-Identifier: Apache-2.0
"""Hosts on which the request failed before."""

from __future__ import annotations

import logging

import pytest

from novasched import errors
from novasched.objects.compute_node import ComputeNode, ComputeNodeList
from novasched.objects.request_spec import SchedulerRetries
from novasched.scheduler.filters.legacy.removed import RetryFilter
from novasched.scheduler.reasons import Code
from novasched.scheduler.warnings import PluginWarning
from tests import factories
from tests.tables import cases
from tests.verdicts import assert_verdict

FILTER = RetryFilter()


def retry(*tried):
    nodes = [ComputeNode(host=host, hypervisor_hostname=node) for host, node in tried]
    return SchedulerRetries(num_attempts=1, hosts=ComputeNodeList(objects=nodes))


@cases(
    'before, host, passes',
    ('the first attempt', None, ('h1', 'n1'), True),
    ('tried', retry(('h1', 'n1')), ('h1', 'n1'), False),
    ('another node', retry(('h1', 'n1')), ('h1', 'n2'), True),
    ('another host', retry(('h1', 'n1')), ('h2', 'n1'), True),
    ('none was tried', retry(), ('h1', 'n1'), True),
    ('one of two', retry(('h9', 'n9'), ('h1', 'n1')), ('h1', 'n1'), False),
    ('no node', retry(('h1', None)), ('h1', 'n1'), True),
)
def test_retry(before, host, passes):
    hosts = factories.hosts(host=[host[0]], nodename=[host[1]])
    assert_verdict(FILTER, hosts, factories.request(retry=before), passes)


def test_a_retry_without_hosts_is_an_invalid_request():
    request = factories.request(retry=SchedulerRetries(num_attempts=1))
    with pytest.raises(errors.UnsetField):
        FILTER.apply(factories.hosts(1), request)


def test_why():
    request = factories.request(retry=retry(('h1', 'n1'), ('h2', 'n2')))
    reason = FILTER.why(factories.hosts(1).state(0), request)
    text = "Previously tried hosts: [['h1', 'n1'], ['h2', 'n2']]"
    assert reason == (Code.TRIED_BEFORE, text)


def test_every_host_that_was_tried_is_named():
    hosts = factories.hosts(3)
    request = factories.request(retry=retry(('h1', 'h1'), ('h3', 'h3')))
    said = list(FILTER.request_warnings(hosts, hosts[[1]], request))
    tail = "fails.  Previously tried hosts: [['h1', 'h1'], ['h3', 'h3']]"
    assert said == [
        PluginWarning(f"Host ['h1', 'h1'] {tail}", logging.INFO),
        PluginWarning(f"Host ['h3', 'h3'] {tail}", logging.INFO),
    ]


def test_operators_are_told_that_it_is_of_the_past():
    assert RetryFilter.deprecated.startswith(
        'The RetryFilter is deprecated since the 20.0.0 Train release.'
    )

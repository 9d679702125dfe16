# SPDX-License-Identifier: Apache-2.0
"""The hosts that the request names."""

import pytest

from novasched import errors
from novasched.objects.request_spec import Destination
from novasched.scheduler.narrow import narrow
from tests.support.clouds import factories
from tests.support.tables.cases import cases

ALL = ['n1', 'n2', 'n3', 'n4']


def four_hosts():
    return factories.hosts(host=['h1', 'h1', 'h2', 'H3'], nodename=ALL)


@cases(
    'asked, nodes, filters_run',
    ('nothing named', {}, ALL, True),
    ('ignored', {'ignore_hosts': ['H1', 'h3']}, ['n3'], True),
    ('ignored, not there', {'ignore_hosts': ['zz']}, ALL, True),
    ('all are ignored', {'ignore_hosts': ['h1', 'h2', 'h3']}, [], False),
    ('forced host', {'force_hosts': ['H1']}, ['n1', 'n2'], False),
    ('forced nodes', {'force_nodes': ['n2', 'n4']}, ['n2', 'n4'], False),
    ('case counts in nodes', {'force_nodes': ['N2']}, [], False),
    ('both forced', {'force_hosts': ['h2'], 'force_nodes': ['n2']}, [], False),
    (
        'forced and checked',
        {'force_hosts': ['h1'], 'scheduler_hints': {'_nova_check_type': ['x']}},
        ['n1', 'n2'],
        True,
    ),
    ('ignore wins', {'ignore_hosts': ['h1'], 'force_hosts': ['h1']}, [], False),
)
def test_named_hosts(asked, nodes, filters_run):
    narrowed = narrow(four_hosts(), factories.request(**asked))
    assert narrowed.hosts.nodename.tolist() == nodes
    assert narrowed.filters_run is filters_run


@cases(
    'host, node, nodes',
    ('a host', 'h1', None, ['n1', 'n2']),
    ('a node of a host', 'h1', 'n2', ['n2']),
    ('case counts', 'H1', None, []),
)
def test_a_destination(host, node, nodes):
    request = factories.request(requested_destination=factories.destination(host, node))
    narrowed = narrow(four_hosts(), request)
    assert narrowed.hosts.nodename.tolist() == nodes
    assert narrowed.filters_run


def test_a_destination_that_is_ignored():
    request = factories.request(
        requested_destination=factories.destination('h1'), ignore_hosts=['h1']
    )
    assert not len(narrow(four_hosts(), request).hosts)


def test_a_destination_without_a_host_does_not_count():
    request = factories.request(requested_destination=Destination(node=None))
    assert len(narrow(four_hosts(), request).hosts) == 4


def test_a_destination_with_a_host_must_say_its_node():
    request = factories.request(requested_destination=Destination(host='h1'))
    with pytest.raises(errors.UnsetField):
        narrow(four_hosts(), request)


@cases(
    'asked, notes',
    ('nothing named', {}, ()),
    (
        'once per dropped node, as the caller spelled it',
        {'ignore_hosts': ['H1', 'h3', 'h1']},
        ('Host filter ignoring hosts: H1, H1, h3',),
    ),
    ('none there', {'ignore_hosts': ['zz']}, ('Host filter ignoring hosts: ',)),
    (
        'forced',
        {'force_hosts': ['H1'], 'force_nodes': ['n1']},
        (
            'Host filter forcing available hosts to h1, h1',
            'Host filter forcing available nodes to n1',
        ),
    ),
    (
        'both lines, even if the first emptied the list',
        {'force_hosts': ['zz', 'yy'], 'force_nodes': ['n2']},
        (
            "No hosts matched due to not matching 'force_hosts' value of 'zz, yy'",
            "No nodes matched due to not matching 'force_nodes' value of 'n2'",
        ),
    ),
    (
        'destination',
        {'requested_destination': factories.destination('h1', 'n1')},
        ('Host filter only checking host h1 and node n1',),
    ),
    (
        'destination elsewhere',
        {'requested_destination': factories.destination('zz')},
        ('No hosts matched due to not matching requested destination (zz, None)',),
    ),
)
def test_notes_are_novas_log_lines(asked, notes):
    assert narrow(four_hosts(), factories.request(**asked)).notes == notes

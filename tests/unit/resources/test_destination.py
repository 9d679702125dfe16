# SPDX-License-Identifier: Apache-2.0
"""Host, node and aggregates that a request is restricted to."""

import pytest

from novasched.objects.request_spec import Destination, RequestSpec
from novasched.resources.request import Target, not_found, target_of, with_aggregates
from novasched.resources.requirements import Requirements
from tests.support.clouds import factories
from tests.support.tables.cases import cases


@cases(
    'fields, target',
    ('unset', {}, None),
    ('empty', {'force_hosts': None, 'force_nodes': []}, None),
    ('forced', {'force_hosts': ['h0', 'h1']}, Target('h0', None)),
    ('a forced node', {'force_nodes': ['n0']}, Target(None, 'n0')),
    (
        'a destination that is not a host',
        {'requested_destination': Destination(aggregates=['a'])},
        None,
    ),
    (
        'the destination comes first, member by member',
        {
            'requested_destination': Destination(host='h2'),
            'force_hosts': ['h0'],
            'force_nodes': ['n0'],
        },
        Target('h2', 'n0'),
    ),
    (
        'a destination node',
        {'requested_destination': Destination(node='n2', cell=None)},
        Target(None, 'n2'),
    ),
)
def test_target(fields, target):
    assert target_of(RequestSpec(**fields)) == target


@pytest.mark.parametrize(
    ('fields', 'reason'),
    [
        ({'force_hosts': ['h']}, 'No such host - host: h node: None '),
        ({}, 'No such host - host: None node: None '),
    ],
)
def test_the_reason_when_there_is_no_such_host(fields, reason):
    assert not_found(RequestSpec(**fields)) == reason


MUST = Requirements(member_of=(frozenset({'b', 'a'}), frozenset({'c'})))
MUST_NOT = Requirements(not_member_of=frozenset({'d'}))


@cases(
    'before, added, aggregates, forbidden',
    ('a first demand', None, MUST, ['a,b', 'c'], None),
    ('what must be left alone', None, MUST_NOT, None, {'d'}),
    (
        'both, after those of the caller',
        Destination(host='h', aggregates=['x'], forbidden_aggregates={'y'}),
        MUST | MUST_NOT,
        ['x', 'a,b', 'c'],
        {'y', 'd'},
    ),
)
def test_aggregates(before, added, aggregates, forbidden):
    request = factories.request(requested_destination=before)
    told = before and before.obj_to_primitive()
    found = with_aggregates(request, added).requested_destination
    assert (found.aggregates, found.forbidden_aggregates) == (aggregates, forbidden)
    assert ('host' in found) == (before is not None)
    assert request.requested_destination is before
    assert told == (before and before.obj_to_primitive())


def test_without_aggregates_the_request_is_the_same():
    request = factories.request()
    traits = Requirements(root_required=frozenset({'OWNER_NOVA'}))
    assert with_aggregates(request, traits) is request

# SPDX-License-Identifier: Apache-2.0
"""Prefilters write into the request where it must go, but not into the caller's."""

from __future__ import annotations

import pytest

from novasched.objects.request_spec import Destination
from novasched.resources.destination import with_aggregates
from novasched.resources.prefilters.requirements import Requirements
from tests import factories

MUST = Requirements(member_of=(frozenset({'b', 'a'}), frozenset({'c'})))
MUST_NOT = Requirements(not_member_of=frozenset({'d'}))


@pytest.mark.parametrize(
    ('before', 'added', 'aggregates', 'forbidden'),
    [
        pytest.param(None, MUST, ['a,b', 'c'], None, id='a first demand'),
        pytest.param(None, MUST_NOT, None, {'d'}, id='what must be left alone'),
        pytest.param(
            Destination(host='h', aggregates=['x'], forbidden_aggregates={'y'}),
            MUST | MUST_NOT,
            ['x', 'a,b', 'c'],
            {'y', 'd'},
            id='both, after those of the caller',
        ),
    ],
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

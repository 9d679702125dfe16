# SPDX-License-Identifier: Apache-2.0
"""What NoValidHost says: nothing more, numbers for users, names for admins."""

from __future__ import annotations

import dataclasses
import json
import random

import pytest

from novasched.drivers.no_valid_host_detail import MOST_ASKED, Level, NoValidHostDetail
from novasched.ports import Candidates, QueryFailed
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.compute import ComputeFilter
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.pipeline import Profile, decide
from tests import factories

NONE, USER, ADMIN = (NoValidHostDetail(level) for level in Level)
ENOUGH = 'There are not enough hosts available.'
EMPTY = Candidates([], '1.36')


class OfPlugin(BaseHostFilter):
    """Rejects all, and says why in words of its own, or fails to."""

    def __init__(self, words):
        self._words = words

    def host_passes(self, host_state, spec_obj):
        return False

    def why(self, host, request):
        if isinstance(self._words, Exception):
            raise self._words
        return self._words


def decision(*filters, request=None, count=5, **fields):
    disabled = [number < 2 for number in range(count)]
    table = factories.hosts(
        num_instances=list(range(count)),
        service_disabled=disabled,
        service_up=[number != 2 for number in range(count)],
    )
    profile = Profile(factories.adapted(filters), ())
    request = request or factories.request()
    made = decide(profile, table, request, random.Random(1))
    return dataclasses.replace(made, **fields)


FULL, BROKEN = NumInstancesFilter(limit=3), OfPlugin(ValueError())


@pytest.mark.parametrize(
    ('detail', 'text'),
    [
        pytest.param(NONE, ENOUGH, id='none'),
        pytest.param(
            USER,
            f'{ENOUGH} Rejected: ComputeFilter 3 of 5 (service-disabled 2, '
            'service-down 1); NumInstancesFilter 2 of 2 (too-many-instances 2).',
            id='user',
        ),
        pytest.param(
            ADMIN,
            f'{ENOUGH} Rejected: ComputeFilter 3 of 5 (service-disabled 2: h1 h2, '
            'service-down 1: h3); NumInstancesFilter 2 of 2 (too-many-instances 2: '
            'h4 h5).',
            id='admin',
        ),
    ],
)
def test_what_the_filters_rejected(detail, text):
    assert detail.of_decision(ENOUGH, decision(ComputeFilter(), FULL)) == text


def test_many_hosts_are_not_all_named():
    said = ADMIN.of_decision('', decision(NumInstancesFilter(limit=0)))
    assert said.endswith('(too-many-instances 5: h1 h2 h3 ...).')


@pytest.mark.parametrize('filter_', [NumInstancesFilter(limit=0), BROKEN])
def test_of_very_many_hosts_not_all_are_asked_about(filter_):
    said = USER.of_decision('', decision(filter_, count=MOST_ASKED + 5))
    assert f' {MOST_ASKED}, not asked 5).' in said


@pytest.mark.parametrize(
    'words',
    [
        pytest.param('not on h1', id='a text that names a host'),
        pytest.param(None, id='nothing'),
        pytest.param(ValueError('h1'), id='it fails to say'),
    ],
)
def test_the_words_of_a_plugin_are_not_given_on(words):
    said = USER.of_decision('', decision(OfPlugin(words)))
    assert said == 'Rejected: OfPlugin 5 of 5 (rejected 5).'


@pytest.mark.parametrize(
    ('made', 'text'),
    [
        pytest.param(
            decision(count=0),
            'Placement offers no host that is known and has a compute service.',
            id='no hosts at all',
        ),
        pytest.param(
            decision(FULL, request=factories.request(ignore_hosts=['h4', 'h5'])),
            'Left out, as the request names hosts: 2. Passed, but not granted by '
            'placement: 3 hosts.',
            id='ignored hosts',
        ),
        pytest.param(
            decision(request=factories.request(force_hosts=['h9'])),
            'Left out, as the request names hosts: 5.',
            id='a forced host that is none',
        ),
        pytest.param(
            decision(FULL, cells_left_out=('east', 'west')),
            'Rejected: NumInstancesFilter 2 of 5 (too-many-instances 2). Passed, but '
            'not granted by placement: 3 hosts. Cells left out: 2.',
            id='cells that do not answer',
        ),
    ],
)
def test_other_ways_to_lose_hosts(made, text):
    assert USER.of_decision('', made) == text


def test_admins_see_the_names_of_cells():
    made = decision(FULL, cells_left_out=('east', 'west'))
    assert ADMIN.of_decision('', made).endswith(' Cells left out: east, west.')
    assert ADMIN.of_cells('Gone.', ('east',)) == 'Gone. Cells left out: east.'
    assert USER.of_cells('Gone.', ('east',)) == 'Gone. Cells left out: 1.'
    assert USER.of_cells('Gone.', ()) == 'Gone.'
    assert NONE.of_cells('Gone.', ('east',)) == 'Gone.'


def test_one_of_several_servers_is_told_by_its_number():
    said = USER.of_decision(ENOUGH, decision(FULL), 1, 3)
    assert said.startswith(f'{ENOUGH} For server 2 of 3: Rejected: Num')


class Once(BaseHostFilter):
    """Passes no host when it is first asked; then it passes all, or breaks."""

    def __init__(self, then):
        self._then = then
        self._calls = 0

    def filter_all(self, hosts, spec_obj):
        self._calls += 1
        if self._calls > 1 and self._then is not None:
            raise self._then
        return [] if self._calls == 1 else list(hosts)


def of_last_two(filter_):
    """The last decision of a request: over two of its five hosts."""
    offered = factories.hosts(num_instances=list(range(5)))
    profile, request = Profile(factories.adapted([filter_]), ()), factories.request()
    last = decide(profile, offered[[3, 4]], request, random.Random(1))
    return dataclasses.replace(last, cells_left_out=('east',)), offered, profile


@pytest.mark.parametrize(
    ('detail', 'filter_', 'text'),
    [
        pytest.param(USER, NumInstancesFilter(limit=0), '5 of 5', id='all are counted'),
        pytest.param(
            NONE, NumInstancesFilter(limit=0), '2 of 2', id='nothing is to be said'
        ),
        pytest.param(USER, Once(None), '2 of 2', id='a filter changes its mind'),
        pytest.param(USER, Once(RuntimeError('x')), '2 of 2', id='a filter breaks'),
    ],
)
def test_the_last_decision_is_made_over_all_hosts(detail, filter_, text):
    made = detail.over_all(*of_last_two(filter_))
    assert f'Filter {text} ' in USER.of_decision('', made).replace('Once', 'Filter')
    assert made.cells_left_out == ('east',)


def test_a_decision_over_all_hosts_is_not_made_again():
    last, offered, profile = of_last_two(NumInstancesFilter(limit=0))
    assert USER.over_all(last, offered[[3, 4]], profile) is last
    assert USER.over_all(None, offered, profile) is None


def test_without_a_decision_there_is_nothing_to_add():
    assert USER.of_decision(ENOUGH, None) == ENOUGH


def refused(detail):
    """What placement answers to a question that it does not take."""
    error = {'status': 400, 'title': 'Bad Request', 'detail': detail}
    return QueryFailed(400, json.dumps({'errors': [error]}))


TRAIT = refused('No such trait(s): CUSTOM_X.\n\n')
CLASS = refused(
    'Invalid resource class in resources parameter: No such resource class CUSTOM_Y.'
)


@pytest.mark.parametrize(
    ('detail', 'answer', 'text'),
    [
        (NONE, TRAIT, ''),
        (ADMIN, TRAIT, 'Placement does not know the trait CUSTOM_X that is asked for.'),
        (USER, TRAIT, 'Placement does not know the trait that is asked for.'),
        (
            ADMIN,
            refused('No such trait(s): CUSTOM_A, CUSTOM_B.'),
            'Placement does not know the trait CUSTOM_A, CUSTOM_B that is asked for.',
        ),
        (
            ADMIN,
            CLASS,
            'Placement does not know the resource class CUSTOM_Y that is asked for.',
        ),
        (USER, CLASS, 'Placement does not know the resource class that is asked for.'),
        (ADMIN, refused('Odd.'), 'Placement answered with HTTP 400: Odd.'),
        (
            ADMIN,
            QueryFailed(400, '{"errors": []}'),
            'Placement answered with HTTP 400: {"errors": []}',
        ),
        (NONE, EMPTY, ''),
        (NONE, QueryFailed(400, 'odd'), ''),
        (
            USER,
            EMPTY,
            'Placement has no allocation candidates for what is asked for.',
        ),
        (USER, QueryFailed(0, 'refused'), 'Placement did not answer.'),
        (USER, QueryFailed(400, 'odd'), 'Placement answered with HTTP 400.'),
        (ADMIN, QueryFailed(400, 'odd'), 'Placement answered with HTTP 400: odd'),
    ],
)
def test_what_placement_said(detail, answer, text):
    assert detail.of_answer('', answer) == text

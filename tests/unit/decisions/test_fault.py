# SPDX-License-Identifier: Apache-2.0
"""What NoValidHost says: nothing more, numbers for users, names for admins."""

import json
import re

import pytest

from novasched import errors
from novasched.decisions.body import RecordedError
from novasched.decisions.fault import Level
from novasched.ports import Cell, QueryFailed
from novasched.resources.requirements import Requirements
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.affinity import ServerGroupAntiAffinityFilter
from novasched.scheduler.filters.compute import ComputeFilter
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.outline import ASKED_OF_FAILURE
from novasched.scheduler.reasons import Blocker, Code
from tests.support.clouds import factories
from tests.support.clouds.fakes import FakePlacement, FakeView
from tests.support.records.recordings import Recorded
from tests.support.tables.cases import cases

NONE, USER, ADMIN = Level
A, B, C = (f'c0000000-0000-4000-8000-00000000000{n}' for n in 'abc')
NOVAS = 'No valid host was found. There are not enough hosts available.'
EMPTY = FakePlacement()
ID = re.compile(r' \(d-[0-9a-z]{13}\)$')


class OfPlugin(BaseHostFilter):
    """Rejects all, and says why in words of its own, or fails to."""

    def __init__(self, words):
        self._words = words
        self.asked = 0

    def host_passes(self, host_state, spec_obj):
        return False

    def why(self, host, request):
        self.asked += 1
        if isinstance(self._words, Exception):
            raise self._words
        return self._words


class Passing(BaseHostFilter):
    """Passes the hosts of a set."""

    def __init__(self, *names):
        self._names = names

    def host_passes(self, host_state, spec_obj):
        return host_state.host in self._names


class First(BaseHostFilter):
    """Passes hosts for the first instance."""

    def host_passes(self, host_state, spec_obj):
        return spec_obj.instance_uuid == A


def table(count=5):
    """Hosts of which two are disabled and one is down, if there are as many."""
    return factories.hosts(
        num_instances=list(range(count)),
        service_disabled=[number < 2 for number in range(count)],
        service_up=[number != 2 for number in range(count)],
    )


def said(level, *filters, hosts=None, uuids=(factories.INSTANCE,), request=None, **of):
    """The text of the error, without its beginning and the id."""
    hosts = table() if hosts is None else hosts
    recorded = Recorded(hosts, filters=filters, level=level, **of)
    text = recorded.refused(uuids, **(request or {}))
    assert ID.search(text)
    assert len(text) <= 255
    assert text.endswith(f'({recorded.record.head.id})')
    text = ID.sub('', text)
    beginning = 'No valid host was found. '
    assert text.startswith(beginning)
    return text.removeprefix(beginning)


def silent(*names):
    """A view of hosts whose cells of these names do not answer."""
    view = FakeView(
        table(), {name: Cell(name, name, None, None, False) for name in names}
    )
    view.silent = set(names)
    return view


FULL, BROKEN = NumInstancesFilter(limit=3), OfPlugin(ValueError())


def test_fault_text_is_novas_without_a_level():
    recorded = Recorded(table(), filters=[ComputeFilter(), FULL])
    assert recorded.refused() == NOVAS
    assert recorded.record.body.error == RecordedError('NoValidHost', NOVAS)


DIAGNOSIS = {
    'age_s': 3.0,
    'source': 'api',
    'hosts': 312,
    'offered': 0,
    'reasons': [
        {'code': code, 'what': what, 'hosts': hosts, 'only': 0, 'largest': None,
         'example': 'cmp-044'}
        for code, what, hosts in (
            ('trait-missing', 'HW_CPU_X86_AVX512F', 3),
            ('exhausted', 'PCPU', 240),
            ('disabled', '', 38),
            ('aggregate-missing', 'a0000000-0000-4000-8000-00000000000a', 31),
        )
    ],
}  # fmt: skip
TREE = 'a0000000-0000-4000-8000-00000000000b'


def diagnosed(**changes):
    """Placement offers nothing, for these reasons."""
    told = {**DIAGNOSIS, **changes}
    return {'placement': FakePlacement(), 'diagnose': lambda query: told}


def of_reason(number, **changes):
    return {**DIAGNOSIS['reasons'][number], **changes}


def refusing(context, request):
    return Requirements(refused='no port of web-7')


EVERY = [f'uuid-h{n}' for n in range(1, 6)]
THREE = factories.hosts(count=3)
TO_ADMINS = (
    '0 of 5 hosts: service-disabled 2 (h1 ...), too-many-instances 2 (h4 ...), '
    'service-down 1 (h3).'
)
UNKNOWN = Blocker.NAMED_HOST.doc
NOTHING = Blocker.NO_CANDIDATES.doc
REFUSED = Blocker.PREFILTER.doc
DIAGNOSED = (
    '0 of 312 hosts: exhausted PCPU 240, disabled 38, aggregate-missing 31, '
    'trait-missing HW_CPU_X86_AVX512F 3.'
)


@cases(
    ('level', 'filters', 'of', 'text'),
    (
        'filters, to users',
        USER,
        [ComputeFilter(), FULL],
        {},
        '0 of 5 hosts: service-disabled 2, too-many-instances 2, service-down 1.',
    ),
    ('filters, to admins', ADMIN, [ComputeFilter(), FULL], {}, TO_ADMINS),
    (
        'no hosts that are known',
        USER,
        [],
        {'placement': FakePlacement('uuid-unheard-of')},
        '0 of 5 hosts: not offered by placement 5.',
    ),
    (
        'no hosts at all',
        USER,
        [],
        {'placement': FakePlacement('x'), 'hosts': factories.hosts(count=0)},
        'No host is offered.',
    ),
    (
        'ignored hosts',
        USER,
        [FULL],
        {
            'request': {'ignore_hosts': ['h4', 'h5']},
            'placement': FakePlacement(*EVERY, script=['refused'] * 99),
        },
        '0 of 5 hosts: not granted by placement 3, not named by the request 2.',
    ),
    (
        'a forced host that is not offered',
        USER,
        [],
        {
            'request': {'force_hosts': ['h9']},
            'view': FakeView(table(), nodes=[('h9', 'h9', 'uuid-h9')]),
        },
        '0 of 5 hosts: not named by the request 5.',
    ),
    (
        'a forced host that is none',
        USER,
        [],
        {'request': {'force_hosts': ['h9']}},
        UNKNOWN,
    ),
    (
        'hosts that placement does not offer',
        USER,
        [FULL],
        {'placement': FakePlacement('uuid-h4', 'uuid-h5')},
        '0 of 5 hosts: not offered by placement 3, too-many-instances 2.',
    ),
    (
        'one of several servers',
        USER,
        [First()],
        {'hosts': THREE, 'uuids': [A, B]},
        'For server 2 of 2: 0 of 3 hosts: rejected 3.',
    ),
    (
        'all hosts of the request',
        ADMIN,
        [Passing('h1', 'h2'), ServerGroupAntiAffinityFilter()],
        {
            'hosts': THREE,
            'uuids': [A, B, C],
            'request': {'instance_group': factories.group(members=[A, B, C])},
            'view': None,
        },
        'For server 3 of 3: 0 of 3 hosts: group-limit 2 (h1 ...), rejected 1 (h3).',
    ),
    ('a prefilter, to users', USER, [], {'prefilters': [refusing]}, REFUSED),
    ('a prefilter, to admins', ADMIN, [], {'prefilters': [refusing]}, REFUSED),
    ('no candidates', USER, [], {'placement': FakePlacement()}, NOTHING),
    ('a diagnosis, to users', USER, [], diagnosed(), DIAGNOSED),
    ('a diagnosis, to admins', ADMIN, [], diagnosed(), DIAGNOSED),
    ('a diagnosis out of date', USER, [], diagnosed(offered=1), NOTHING),
    (
        'placement and filters',
        USER,
        [FULL],
        {
            **diagnosed(hosts=5, offered=2, reasons=[of_reason(1, hosts=3)]),
            'placement': FakePlacement('uuid-h4', 'uuid-h5'),
        },
        '0 of 5 hosts: exhausted PCPU 3, too-many-instances 2.',
    ),
    (
        'reasons of the same words',
        USER,
        [],
        diagnosed(
            hosts=12,
            reasons=[
                of_reason(3, what=A, hosts=4),
                of_reason(3, what=B, hosts=5),
                of_reason(0, code='not-in-tree', what=TREE),
            ],
        ),
        '0 of 12 hosts: aggregate-missing 9, not-in-tree 3.',
    ),
    (
        'filters of the same words',
        ADMIN,
        [Passing('h1', 'h2', 'h3'), Passing('h1'), Passing()],
        {},
        '0 of 5 hosts: rejected 5 (h4 ...).',
    ),
    (
        'very many cells',
        ADMIN,
        [ComputeFilter(), FULL],
        {'view': silent(*(f'cell-of-region-{n}' for n in range(40)))},
        f'{TO_ADMINS} Cells left out: 40.',
    ),
)
def test_fault_text_counts_reasons_and_names_hosts_for_admins_only(
    level, filters, of, text
):
    assert said(level, *filters, **of) == text


class OfNumbers(OfPlugin):
    """Has a reason of its own for each host."""

    codes = (Code.TOO_MANY_INSTANCES, Code.REJECTED)


def test_of_very_many_hosts_not_all_are_asked_about():
    many = factories.hosts(count=ASKED_OF_FAILURE + 5)
    plugin = OfNumbers('no')
    text = said(USER, plugin, hosts=many)
    assert text == '0 of 1005 hosts: rejected 1000, not-asked 5.'
    assert plugin.asked == ASKED_OF_FAILURE


@cases(
    'words',
    ('a text that names a host', 'not on h1'),
    ('nothing', None),
    ('it fails to say', ValueError('h1')),
)
@pytest.mark.parametrize(
    ('level', 'text'), [(USER, 'rejected 5.'), (ADMIN, 'rejected 5 (h1 ...).')]
)
def test_the_words_of_a_plugin_are_not_given_on(words, level, text):
    assert said(level, OfPlugin(words)) == f'0 of 5 hosts: {text}'


@pytest.mark.parametrize(
    ('level', 'text'),
    [(USER, ' Cells left out: 2.'), (ADMIN, ' Cells left out: east, west.')],
)
def test_admins_see_the_names_of_cells(level, text):
    view = silent('east', 'west')
    assert said(level, NumInstancesFilter(limit=0), view=view).endswith(text)


def test_users_see_no_name_of_a_host_or_cell():
    text = said(USER, ComputeFilter(), FULL, view=silent('east'))
    assert not re.search(r'h\d|east', text)


class Once(BaseHostFilter):
    """Passes some hosts for the first instance, and then none; when it is asked a third
    time, for the record, it passes all again, or breaks."""

    def __init__(self, then=None):
        self._then = then
        self._calls = 0

    def filter_all(self, hosts, spec_obj):
        self._calls += 1
        if self._calls > 2 and self._then is not None:
            raise self._then
        return [h for h in hosts if h.host != 'h1'] if self._calls != 2 else []


@cases(
    'filter_', ('it changes its mind', Once()), ('it breaks', Once(RuntimeError('x')))
)
def test_a_filter_that_decides_otherwise_for_the_record_is_not_believed(filter_):
    hosts, view = factories.hosts(count=3), silent('east')
    view._hosts = hosts
    text = said(USER, filter_, hosts=hosts, uuids=[A, B], view=view)
    assert text == (
        'For server 2 of 2: 0 of 3 hosts: rejected 2, not offered by placement 1. '
        'Cells left out: 1.'
    )


def test_a_decision_over_all_hosts_still_knows_which_cells_were_left_out():
    view = silent('east')
    text = said(USER, First(), uuids=[A, B], view=view)
    assert text.endswith(' Cells left out: 1.')


def refused(detail):
    """What placement answers to a question that it does not take."""
    error = {'status': 400, 'title': 'Bad Request', 'detail': detail}
    return QueryFailed(400, json.dumps({'errors': [error]}))


TRAIT = refused('No such trait(s): CUSTOM_X.\n\n')
CLASS = refused(
    'Invalid resource class in resources parameter: No such resource class CUSTOM_Y.'
)


@pytest.mark.parametrize(
    ('level', 'answer', 'text'),
    [
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
        (USER, QueryFailed(0, 'refused'), 'Placement did not answer.'),
        (USER, QueryFailed(400, 'odd'), 'Placement answered with HTTP 400.'),
        (ADMIN, QueryFailed(400, 'odd'), 'Placement answered with HTTP 400: odd'),
    ],
)
def test_fault_text_names_what_placement_refused(level, answer, text):
    placement = FakePlacement()
    placement.fail(answer.status, answer.text)
    assert said(level, placement=placement) == text


def test_a_placement_that_says_very_much_is_cut():
    placement = FakePlacement()
    placement.fail(400, 'x' * 5000)
    said(ADMIN, placement=placement, view=silent('east' * 50))


def many_reasons(count):
    reasons = [
        {'code': 'exhausted', 'what': f'CUSTOM_CLASS_{n:02}', 'hosts': count - n,
         'only': 0, 'largest': None, 'example': ''}
        for n in range(count)
    ]  # fmt: skip
    return {**DIAGNOSIS, 'reasons': reasons, 'hosts': count * (count + 1) // 2}


def test_the_rarest_reasons_are_counted_as_others():
    made = many_reasons(20)
    text = said(USER, placement=FakePlacement(), diagnose=lambda query: made)
    assert text.startswith('0 of 210 hosts: exhausted CUSTOM_CLASS_00 20, ')
    *kept, others = (int(n) for n in re.findall(r' (\d+)(?= others|,)', f'{text},'))
    assert text.endswith(f'{others} others.')
    assert kept == list(range(20, 20 - len(kept), -1))
    assert len(kept) > 4
    assert sum(kept) + others == 210


class Away(FakePlacement):
    """Offers two of its hosts as long as there is a limit, and then does not answer."""

    def candidates(self, context, query):
        found = super().candidates(context, query)
        if 'limit' not in str(query):
            return QueryFailed(0, 'away')
        return found


def test_a_placement_that_goes_away_when_asked_for_more_is_not_the_reason():
    placement = Away('uuid-h4', 'uuid-h5')
    text = said(USER, FULL, placement=placement, limit=2)
    assert len(placement.queries) == 2
    assert text == '0 of 5 hosts: not offered by placement 3, too-many-instances 2.'


def test_other_errors_are_left_alone():
    class Broken(BaseHostFilter):
        def host_passes(self, host_state, spec_obj):
            raise RuntimeError('web-7')

    with pytest.raises(errors.ExtensionFailed):
        Recorded(table(), filters=[Broken()], level=ADMIN).ask()

# SPDX-License-Identifier: Apache-2.0
"""What the pages show of the answers of a reader."""

from dataclasses import replace

import pytest

from novasched import errors
from novasched.decisions.comparison import Cause, Verdict
from novasched.inspection.questions import explain, overview
from novasched.inspection.session.orders import ShadowOrder
from novasched.policy_lab.run_list import LabReport
from tests.support.records import console_answers, decision_records
from tests.support.records.compared_records import comparison
from tests.support.records.console_answers import (
    SCHEDULED,
    UNSCHEDULABLE,
    client,
    page,
    part,
)

HREF = {'href': None}


def links(seen, **attributes):
    return {text: found['href'] for found, text in seen.all('a', **attributes)}


class TestOverview:
    def test_numbers_open_what_they_count(self):
        seen = page('/')
        assert '/decisions?plugin=NUMATopologyFilter&since=' in str(links(seen))
        assert '/decisions?blocker=no-candidates&since=' in str(links(seen))
        minutes = [f['href'] for f, _ in seen.all('a', tabindex='-1')]
        assert minutes == [
            '/decisions?since=2026-11-22T12%3A00%3A00Z&until=2026-11-22T12%3A01%3A00Z',
            '/decisions?since=2026-11-22T12%3A05%3A00Z&until=2026-11-22T12%3A06%3A00Z',
        ]

    def test_each_cell_has_its_age(self):
        cells = page('/').text('ul', id='cells')
        assert cells == '✓ cell1 1 s !unavailable cell3 74 s'

    def test_without_decisions_it_says_what_to_do(self):
        nothing = part(results={}, minutes=[], newest=[], reasons=[], took_us={})
        seen = page('/', overview=overview.merged({'ctl1': nothing}, 3600.0))
        assert 'No decision in the last hour' in seen.text()
        assert links(seen)['plan one'] == '/plan'

    def test_without_schedulers(self):
        seen = page('/', overview=overview.merged({}, 3600.0, ['ctl1'], ['ctl2']))
        assert 'ctl1 did not answer' in seen.text()
        assert 'ctl2 runs nova-scheduler' in seen.text()

    def test_regions_are_refreshed_from_the_page_itself(self):
        seen = page('/')
        regions = [f for name, f in seen.elements if 'data-refresh' in f]
        assert {each['data-refresh'] for each in regions} == {'/'}
        assert len({each['id'] for each in regions}) == len(regions) > 4


class TestDecisions:
    def test_rows_and_older_ones(self):
        seen = page('/decisions?flavor=m1.large&limit=2')
        assert links(seen)['Older'] == (
            f'/decisions?flavor=m1.large&limit=2&before={UNSCHEDULABLE}&first=3'
        )
        assert links(seen)[SCHEDULED] == f'/decisions/{SCHEDULED}'
        assert links(seen)['×'] == '/decisions?limit=2'

    def test_query_parameters_reach_the_reader(self):
        reader = console_answers.GivenReader()
        asked = '/decisions?host=cmp-1&before=d-1&limit=7'
        console_answers.app.create(reader).test_client().get(asked)
        _, criteria, before, limit = reader.asked[0]
        assert (criteria.host, before, limit) == ('cmp-1', 'd-1', 7)

    @pytest.mark.parametrize(
        ('path', 'said'),
        [('/decisions', 'is kept yet'), ('/decisions?host=x', 'Take a criterion away')],
    )
    def test_nothing_is_there(self, path, said):
        nothing = {'decisions': [], 'next': None, 'unanswered': ['ctl3']}
        seen = page(path, decisions=nothing)
        assert said in seen.text()
        assert 'ctl3 did not answer' in seen.text()

    @pytest.mark.parametrize(
        ('by', 'value', 'most_often', 'opened'),
        [
            ('plugin', 'RAMFilter', 'not-enough-ram', '?zone=az1&plugin=RAMFilter'),
            (
                'plugin',
                '(placement)',
                'no-candidates',
                '?zone=az1&blocker=no-candidates',
            ),
            ('flavor', 'm1 <b>', 'scheduled', '?zone=az1&flavor=m1+%3Cb%3E'),
            (
                'hour',
                '2026-11-22T12:00Z',
                'scheduled',
                '?zone=az1&since=2026-11-22T12%3A00%3A00Z'
                '&until=2026-11-22T12%3A59%3A59.999999Z',
            ),
        ],
    )
    def test_counts_open_what_they_count(self, by, value, most_often, opened):
        row = {'value': value, 'count': 7, 'share': 0.5, 'most_often': most_often}
        counted = {'rows': [row], 'unanswered': []}
        seen = page(f'/decisions/count?by={by}&zone=az1', count=counted)
        assert links(seen)['7'] == f'/decisions{opened}'


class TestDecision:
    def test_each_number_of_the_funnel_opens_so_many_hosts(self):
        numbers = page(f'/decisions/{SCHEDULED}').all('a', class_='funnel-count')
        counts = [int(text) for _, text in numbers]
        assert counts == [312, 187, 125, 185, 2, 182, 3]
        for found, text in numbers:
            path = found['href'].removesuffix('#hosts')
            (hosts, _), *_ = page(path).all('table', id='hosts')
            assert hosts['data-total'] == text

    def test_hosts_come_a_hundred_a_page(self):
        path = f'/decisions/{SCHEDULED}?stage=placement'
        names = []
        for number in (1, 2):
            seen = page(f'{path}&page={number}')
            names += [text for _, text in seen.all('th', scope='row')]
        hosts = [each for each in names if each.startswith('cmp-')]
        taken = [host for host in hosts if host >= 'cmp-188']
        assert len(taken) == len(set(taken)) == 125
        assert links(seen)['Before'].endswith('stage=placement&page=1#hosts')
        assert 'Next' not in links(seen)

    def test_a_page_after_the_last_is_the_last(self):
        seen = page(f'/decisions/{SCHEDULED}?stage=placement&page=99')
        assert 'page 2 of 2' in seen.text()

    def test_the_best_hosts_and_what_they_were(self):
        seen = page(f'/decisions/{SCHEDULED}')
        table = seen.text('table', id='weights')
        assert 'cmp-044 ✓ selected 1.8431 0.9920 0.9511 -0.1000' in table
        assert 'cmp-051 alternate' in table
        assert 'CPU x1.0 decided it' in table
        assert 'Won by' not in table
        assert '0.0314 over cmp-051' in seen.text()
        assert 'claimed at the first try' in seen.text()

    def test_weighers_that_decided_name_the_host_of_each(self):
        note = page(f'/decisions/{SCHEDULED}').text(
            'section', **{'aria-labelledby': 'won'}
        )
        assert 'CPUWeigher decided it: without it, cmp-003.' in note

    def test_hosts_without_a_reason_were_not_asked_about(self):
        funnel = page(f'/decisions/{SCHEDULED}').text('ol', class_='funnel')
        assert '125: placement gives no reasons offered 187, not cut' in funnel
        assert 'not-asked' not in funnel

    def test_servers_are_counted_from_one(self):
        record = decision_records.changed(console_answers.RECORDS[UNSCHEDULABLE])
        explained = explain.explanation(record, None, long=True)
        explained = replace(explained, servers_total=2, index=1)
        seen = page(f'/decisions/{UNSCHEDULABLE}', decision=explained)
        assert 'Filters, for server 2: NUMATopologyFilter' in seen.text()

    def test_one_that_failed_says_why_and_what_would_help(self):
        seen = page(f'/decisions/{UNSCHEDULABLE}')
        record = console_answers.RECORDS[UNSCHEDULABLE]
        explained = explain.explanation(record, None, long=True)
        assert seen.text('h1') == '✕ No valid host'
        assert 'NUMATopologyFilter rejected the last 30 of 312 hosts' in seen.text()
        assert seen.all('table', id='weights') == []
        assert links(seen)['Plan the same'] == f'/plan?like={UNSCHEDULABLE}'
        numbers = {text for _, text in seen.all('a', class_='funnel-count')}
        assert str(explained.stages[0].before) in numbers

    def test_the_reason_of_a_host_is_exact_or_one_of_some(self):
        found = page(f'/decisions/{UNSCHEDULABLE}?stage=NUMATopologyFilter')
        table = found.text('table', id='hosts')
        assert 'cmp-010 NUMATopologyFilter not-enough-dedicated-cpus: 6 free' in table
        one_of = 'one of: not-enough-dedicated-cpus, not-enough-pages'
        assert f'cmp-011 NUMATopologyFilter {one_of}' in table

    def test_a_record_of_which_the_head_is_kept(self):
        record = decision_records.changed(console_answers.RECORDS[SCHEDULED])
        head = explain.explanation(type(record)(record.head), None, long=True)
        seen = page(f'/decisions/{SCHEDULED}', decision=head)
        assert 'Only the head of this record was kept' in seen.text()
        assert 'Plan the same' not in links(seen)

    @pytest.mark.parametrize('blocker', ['no-candidates', 'placement-failed', 'error'])
    def test_one_that_ended_before_the_filters(self, blocker):
        code = 'exhausted' if blocker == 'no-candidates' else ''
        record = decision_records.failed(blocker, code=code)
        explained = explain.explanation(record, None, long=True)
        seen = page(f'/decisions/{record.head.id}', decision=explained)
        assert 'The record does not name the hosts' in seen.text()
        assert seen.all('table', id='hosts') == []

    @pytest.mark.parametrize('text', ['stage=x', 'order=size', 'page=0', 'index=7x'])
    def test_invalid_query_parameter_is_named(self, text):
        seen = page(f'/decisions/{SCHEDULED}?{text}', status=400)
        assert f'{text.partition("=")[0].capitalize()}: ' in seen.text()


class TestCapacity:
    def test_slots_open_hosts_and_the_map(self):
        seen = page('/capacity?by=zone')
        assert links(seen)['12'] == '/hosts?flavor=m1.large&zone=az1'
        assert links(seen)['38 disabled'] == '/hosts?state=disabled'
        assert links(seen)['m1.large'] == '/capacity?by=zone&heat=m1.large#map'
        assert 'cell3 does not answer; its 96 hosts are not in this' in seen.text()
        assert 'exhausted MEMORY_MB: 4 hosts, 40 VCPU' in seen.text()
        assert 'No valid host was found.' in seen.text()

    def test_hosts_in_no_aggregate_have_no_page(self):
        rows = [{**console_answers.CAPACITY['rows'][0], 'by': '-'}]
        answer = {**console_answers.CAPACITY, 'rows': rows}
        seen = page('/capacity?by=aggregate', capacity=answer)
        assert not {'-', '12'} & links(seen).keys()

    def test_the_map_alone_names_cells_that_are_not_in_it(self):
        answer = {'flavor': 'm1.large', 'groups': [], 'cells_left_out': ['cell3']}
        seen = page('/capacity/heat?flavor=m1.large', heat=answer)
        assert 'cell3 does not answer' in seen.text()

    def test_squares_have_a_name_and_a_pattern(self):
        seen = page('/capacity')
        titles = [f['aria-label'] for f, _ in seen.all('a', tabindex='-1')]
        assert titles == [
            'cmp-001: 0 slots',
            'cmp-002: disabled or down',
            'cmp-003: 7 slots',
        ]
        patterns = {f'url(#{f["id"]})' for f, _ in seen.all('pattern')}
        assert {f['fill'] for f, _ in seen.all('rect', fill=None)} <= patterns


class TestHosts:
    def test_a_row(self):
        seen = page('/hosts?flavor=m1.large&page=2')
        row = seen.all('tr')[-1][1]
        assert row.startswith('cmp-009 –disabled memory is replaced az1 pinned')
        assert '1 of 256 GiB' in row
        assert links(seen)['Next'] == '/hosts?flavor=m1.large&page=3'

    def test_nothing_is_known(self):
        nothing = console_answers.NO_HOSTS
        assert 'discover_hosts' in page('/hosts', hosts=nothing).text()
        assert 'Take a criterion' in page('/hosts?zone=a', hosts=nothing).text()

    def test_without_placement_it_is_said_that_use_is_not_known(self):
        rows = [{**console_answers.HOST_ROW, 'used': {}}]
        problem = 'Placement could not be asked: HTTP 503'
        answer = {**console_answers.HOSTS, 'hosts': rows, 'problem': problem}
        said = page('/hosts', hosts=answer).text()
        assert f'It is not known how much is used. {problem}' in said


class TestShadow:
    def test_systematic_differences_come_before_all_numbers(self):
        text = page('/shadow').text()
        order = [text.index(s) for s in ('Systematically', 'weighs more', 'Newest')]
        assert order == sorted(order)
        assert '36 servers' in text

    def test_each_difference_opens_its_decision_and_hosts(self):
        newest = console_answers.SHADOW['differences'][0]
        found = links(page('/shadow'))
        assert found[newest['id']] == f'/decisions/{newest["id"]}'
        assert (found['cmp-1'], found['cmp-2']) == ('/hosts/cmp-1', '/hosts/cmp-2')
        listed = found['all decisions that differ']
        assert listed.startswith('/decisions?differs=yes&since=2026-11-22T')

    def test_other_times_are_a_link_away(self):
        reader = console_answers.GivenReader()
        pages = console_answers.app.create(reader).test_client()
        seen = console_answers.SeenPage(pages.get('/shadow?since=3d').text)
        assert reader.asked == [('shadow', ShadowOrder(since='3d'))]
        chosen = seen.all('a', href='/shadow?since=3d', **{'aria-current': 'true'})
        assert len(chosen) == 1
        assert links(seen)['7d'] == '/shadow?since=7d'

    def test_log_without_comparisons_says_what_a_shadow_needs(self):
        seen = page('/shadow', shadow=console_answers.NO_SHADOW)
        assert '[novasched] shadow = true' in seen.text()

    @pytest.mark.parametrize('has_shadow', [True, False])
    def test_pages_link_to_it_where_there_is_one(self, has_shadow):
        assert ('Shadow' in links(page('/', has_shadow=has_shadow))) == has_shadow

    def test_pages_do_without_the_link_where_the_log_does_not_answer(self):
        assert 'Shadow' not in links(page('/', has_shadow=errors.Busy('navigation')))

    def test_decision_has_the_choice_of_nova_beside_each_server(self):
        compared = [
            comparison(Verdict.EQUAL, server='one'),
            comparison(Verdict.BETTER, Cause.LATE, server='two', refused=['cmp-9']),
        ]
        record = decision_records.scheduled(shadow=compared)
        made = explain.explanation(record, None, long=True)
        seen = page(f'/decisions/{SCHEDULED}', decision=made)
        rows = [text for _, text in seen.all('tr')]
        seen_after = 'by its allocation, seen after 1.2 s'
        assert f'one cmp-1 cmp-1 {seen_after} the same choice' in rows
        assert (
            f'two cmp-1 cmp-2 {seen_after}, refused by cmp-9 our host weighs more '
            '(1.7500 and 1.5000): nova had claimed before we decided'
        ) in rows

    def test_decision_of_a_scheduler_says_nothing_of_a_shadow(self):
        assert "Nova's choice" not in page(f'/decisions/{SCHEDULED}').text()


class TestFailures:
    @pytest.mark.parametrize(
        ('path', 'problem', 'status', 'said'),
        [
            ('/hosts', errors.Busy('questions'), 503, 'Too much at once'),
            ('/', errors.StoreFailed('api', 'it is away'), 503, 'Scheduling goes on'),
            ('/hosts/x', errors.OptionError('HOST', 'no x', 'Try y'), 404, 'Try y.'),
            ('/hosts', errors.OptionError('zone', 'no z', 'Try y'), 400, 'Try y.'),
            ('/decisions/d-123456', None, 404, 'No record is kept'),
            ('/nonsense', None, 404, 'no such page'),
        ],
    )
    def test_pages_and_json_say_what_happened(self, path, problem, status, said):
        name = {'/': 'overview', '/hosts': 'hosts', '/hosts/x': 'host'}.get(path, '')
        asked = client(**({name: problem} if problem else {}))
        answer = asked.get(path)
        assert (answer.status_code, answer.mimetype) == (status, 'text/html')
        assert said in answer.text
        answer = asked.get(f'/api/v1{path}')
        assert (answer.status_code, answer.mimetype) == (status, 'application/json')
        assert answer.json['v'] == 1
        assert answer.json['error']
        is_busy = isinstance(problem, errors.Busy)
        assert ('Retry-After' in answer.headers) == is_busy

    def test_a_plan_that_cannot_be_made_keeps_what_was_typed(self):
        problem = errors.OptionError('flavor', 'there is no x', 'Did you mean y?')
        seen = page('/plan?flavor=x&hints=a%3Db', status=400, plan=problem)
        assert 'there is no x. Did you mean y' in seen.text('section', id='result')
        assert seen.all('input', name='flavor')[0][0]['value'] == 'x'
        assert seen.text('textarea', name='hints') == 'a=b'

    @pytest.mark.parametrize('path', ['/plan', '/hosts', '/capacity'])
    def test_pages_do_without_flavors_to_choose_from(self, path):
        seen = page(path, flavors=errors.Busy(1))
        assert seen.all('h1')

    def test_other_methods_are_not_there(self):
        assert client().post('/plan').status_code == 405
        assert client().delete('/api/v1/hosts').status_code == 405


@pytest.mark.parametrize(
    ('typed', 'opened'),
    [
        ('', '/decisions'),
        ('d-06f3k9', '/decisions/d-06f3k9'),
        ('D-06F3K9', '/decisions/d-06f3k9'),
        (decision_records.REQUEST, f'/decisions?request={decision_records.REQUEST}'),
        (decision_records.SERVER, f'/decisions?server={decision_records.SERVER}'),
        ('cmp-04', '/hosts?name=cmp-04'),
        ('//evil.example', '/hosts?name=%2F%2Fevil.example'),
    ],
)
def test_search_opens_what_was_typed(typed, opened):
    answer = client().get('/search', query_string={'q': typed})
    assert (answer.status_code, answer.location) == (302, opened)


@pytest.mark.parametrize(
    ('typed', 'found', 'opened'),
    [
        ('CMP-009', {**console_answers.HOSTS, 'total': 1}, '/hosts/cmp-009'),
        ('cmp-00', console_answers.NO_HOSTS, '/hosts?name=cmp-00'),
        ('cmp-0*', errors.InvalidRequest('not asked'), '/hosts?name=cmp-0%2A'),
        ('cmp-009', errors.StoreFailed('Cell c', 'gone'), '/hosts?name=cmp-009'),
    ],
)
def test_search_opens_the_host_of_this_very_name(typed, found, opened):
    answer = client(hosts=found).get('/search', query_string={'q': typed})
    assert answer.location == opened


def test_counts_of_many_values_are_shown_in_part():
    rows = [
        {'value': f'h{n}', 'count': 1, 'share': 0.01, 'most_often': ''}
        for n in range(130)
    ]
    seen = page('/decisions/count?by=host', count={'rows': rows, 'unanswered': []})
    assert len(seen.all('table', class_='counts')[0][1].split('1.0 %')) == 101
    assert '30 more are in the JSON alone.' in seen.text('main')


@pytest.mark.parametrize(
    ('given', 'extent'),
    [
        ('', '1,185 decisions, 1–2'),
        ('?before=d-06f3k9&first=51', '1,185 decisions, 51–52'),
        ('?before=d-06f3k9', '1,185 decisions'),
    ],
)
def test_decisions_say_how_many_there_are(given, extent):
    row = {'value': 'scheduled', 'count': 1185, 'share': 1.0, 'most_often': ''}
    seen = page(f'/decisions{given}', count={'rows': [row], 'unanswered': []})
    assert seen.text('p', id='extent') == extent
    seen = page('/decisions', count=errors.Busy(1))
    assert not seen.all('p', id='extent')


def test_the_overview_names_servers_and_the_reason_beside_a_filter():
    seen = page('/')
    assert ('uuid', '/decisions?server=uuid') in [
        (text, found['href']) for found, text in seen.all('a')
    ]
    names = [text for _, text in seen.all('span', class_='name')]
    assert 'NUMATopologyFilter / x' in [' '.join(each.split()) for each in names]


@pytest.mark.parametrize(
    'path',
    [
        *('/', '/decisions', '/decisions/count', f'/decisions/{SCHEDULED}', '/plan'),
        *('/capacity', '/capacity/heat?flavor=m1.large', '/hosts', '/health'),
        '/shadow',
    ],
)
def test_json_is_the_answer_of_the_reader(path):
    answer = client().get(f'/api/v1{path}')
    assert answer.status_code == 200
    assert answer.json['v'] == 1
    if path == '/capacity':
        assert answer.json == {'v': 1, **console_answers.CAPACITY}


def test_health_says_how_each_is_well():
    checks = {name: {'status': 'pass'} for name in ('placement', 'policy')}
    health = {'status': 'pass', 'checks': checks, 'free_slots': []}
    shown = client(health=health).get('/health').text
    assert 'It answers.' in shown
    assert 'Enabled filters check all that flavors and aggregates ask for.' in shown


class TestLab:
    def test_run_has_its_figures_and_differences(self):
        seen = page('/lab')
        rows = [text for _, text in seen.all('tr')]
        assert 'empty hosts 1.5 % 11.5 % +10.0±0.0' in rows
        assert 'hosts needed 12 11 -8.3 %' in ' '.join(rows)
        assert 'pack refused more or less than' in seen.text()
        assert len(seen.all('polyline')) == 2 * 5

    def test_other_runs_are_a_link_away(self):
        assert links(page('/lab'))['azure'] == '/lab?run=azure'

    def test_without_a_run_it_says_how_to_make_one(self):
        seen = page('/lab', lab=LabReport([]))
        assert 'novasched lab run HISTORY --to' in seen.text()

    def test_run_that_cannot_be_read_is_a_note(self):
        broken = replace(console_answers.LAB, run=None, problem='azure is torn.')
        seen = page('/lab', lab=broken)
        assert 'azure is torn.' in seen.text()
        assert 'azure' in links(seen)

    @pytest.mark.parametrize('has_lab', [True, False])
    def test_pages_link_to_it_where_it_is(self, has_lab):
        assert ('Lab' in links(page('/', has_lab=has_lab))) == has_lab

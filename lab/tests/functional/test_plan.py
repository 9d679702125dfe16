# SPDX-License-Identifier: Apache-2.0
"""Plans, and what then happens when the same is done."""

import contextlib
import functools
import json
import random

import pytest
import sqlalchemy as sa
import yaml

from lab.tests.functional.api import Whole, emptied
from lab.tests.functional.api import run as run_lab
from novasched import app, errors
from novasched.commands.plan import PlanBoot, PlanDrain, PlanMove
from novasched.commands.why_not import WhyNot
from novasched.db import engines, server_tables, tables
from novasched.external.silent import SilentNotifier
from novasched.objects.request_spec import RequestSpec
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched_lab.commands.servers import BootServers, MoveServer
from tests.functional.commands import run
from tests.support.tables.cases import cases
from tests.support.tables.examples import scaled

HOSTS = [
    {
        'name': f'{cell}-h{{}}',
        'count': 3,
        'cell': cell,
        'zone': f'zone-{cell}',
        'vcpus': 8,
        'memory_mb': 16384,
        'disk_gb': 200,
    }
    for cell in ('cell1', 'cell2')
]
SMALL = ('--flavor', 'vcpus=1,ram=512,disk=1')

EMPTY = json.dumps(RequestSpec().obj_to_primitive())
"""A request that has no fields."""


@pytest.fixture(scope='module')
def shared(module_cloud):
    return Whole(module_cloud([]), {'hosts': HOSTS, 'rules': []})


@pytest.fixture
def made(shared):
    """The cloud that tests share, as it was made; it is left so."""
    with emptied(shared) as made:
        yield made


def plan(whole, kind, *words, form='json'):
    """Run a command that reads this cloud; placement must see no write of it."""
    api_engine = engines.read_only(engines.api_engine(whole.conf))
    make = functools.partial(engines.cell_engine, whole.conf)
    sources = app.Sources(
        api_engine=api_engine,
        make_cell_engine=lambda url: engines.read_only(make(url)),
        placement=whole.cloud.adapter,
        notifier=SilentNotifier(),
        clock=SYSTEM_CLOCK,
        rng=random.Random(),
    )

    seen = whole.cloud.faults.seen
    before = {method: seen[method] for method in ('PUT', 'POST', 'DELETE')}
    try:
        return run(whole, kind, *words, form=form, read=sources)
    finally:
        api_engine.dispose()
        assert {method: seen[method] for method in before} == before


@contextlib.contextmanager
def disabled(whole, host):
    """Have the compute service of a host disabled; placement does not hear of it."""
    cell = whole.cloud.databases[host.partition('-')[0]].cell

    def write(is_disabled):
        change = tables.services.update().where(tables.services.c.host == host)
        with cell.begin() as connection:
            connection.execute(change.values(disabled=is_disabled))

    write(True)
    yield
    write(False)


@contextlib.contextmanager
def away(whole, cell):
    """Have a cell mapped to a database that does not answer."""
    c = tables.cell_mappings.c
    url = sa.select(c.database_connection).where(c.name == cell)
    api = whole.cloud.databases['api'].api

    def write(url):
        moved = tables.cell_mappings.update().where(c.name == cell)
        with api.begin() as connection:
            connection.execute(moved.values(database_connection=url))

    with api.connect() as connection:
        before = connection.execute(url).scalar_one()
    write('sqlite:////no/such/file')
    yield
    write(before)


def test_servers_go_where_the_plan_says(made):
    count = scaled(32)
    words = (*SMALL, '--count', str(count))
    code, planned, said = plan(made, PlanBoot, *words)
    assert (code, planned['fits'], planned['asked'], said) == (0, count, count, '')
    assert made.held() == {}
    assert len({each['host'] for each in planned['placed']}) == 6
    assert sum(each['servers'] + each['room'] for each in planned['hosts']) == 6 * 32
    code, booted, _ = run_lab(made, BootServers, 'many', *words)
    assert code == 0
    assert [each['Host'] for each in booted] == [e['host'] for e in planned['placed']]


def test_a_plan_names_what_would_change_the_answer(made):
    code, planned, _ = plan(made, PlanBoot, '--flavor', 'vcpus=1,ram=99999,disk=1')
    assert (code, planned['fits']) == (3, 0)
    (refused,) = planned['unplaced']
    assert refused['explanation']['blocker'] == 'no-candidates'
    (stage,) = refused['explanation']['stages']
    assert [(r['code'], r['count']) for r in stage['reasons']] == [
        ('amount-not-allowed', 6)
    ]
    (change,) = planned['changes']
    assert change['change'].startswith('99999 MEMORY_MB in one piece on ')
    assert change['hosts'] == 6


TOO_LARGE = ('--flavor', 'vcpus=1,ram=99999,disk=1')
APART = (*SMALL, '--policy', 'anti-affinity', '--count', '7')


@cases(
    'kind, words, reason',
    ('of placement', PlanBoot, TOO_LARGE, 'amount-not-allowed'),
    ('of a host', WhyNot, ('cell1-h1', *TOO_LARGE), 'amount-not-allowed'),
    more=[('of a filter', PlanBoot, APART, 'group-limit')],
)
def test_a_refusal_in_yaml(made, kind, words, reason):
    more = () if kind is WhyNot else ('--explain', '--long')
    code, text, _ = plan(made, kind, *words, *more, form='yaml')
    assert (code, yaml.safe_load(text)['v']) == (3, 1)
    assert f'code: {reason}' in text


def test_a_plan_says_how_many_fit_and_what_the_next_one_lacks(made):
    big = ('--flavor', 'vcpus=2,ram=9000,disk=1')
    code, planned, _ = plan(made, PlanBoot, *big, '--count', '14')
    assert (code, planned['fits'], planned['asked']) == (3, 6, 14)
    assert planned['unplaced'][0]['count'] == 8
    (stage,) = planned['unplaced'][0]['explanation']['stages']
    assert [(r['code'], r['what']) for r in stage['reasons']] == [
        ('exhausted', 'MEMORY_MB')
    ]
    assert (planned['changes'][0]['hosts'], made.held()) == (6, {})
    code, booted, _ = run_lab(made, BootServers, 'many', *big, '--count', '6')
    assert code == 0
    assert [each['Host'] for each in booted] == [e['host'] for e in planned['placed']]


def test_the_zone_is_one_condition_for_placement_and_filter(made):
    words = ('--flavor', 'vcpus=1,ram=12000,disk=1', '--count', '6')
    code, planned, _ = plan(made, PlanBoot, *words, '--availability-zone', 'zone-cell1')
    assert (code, planned['fits']) == (3, 3)
    zone = {'change': 'any zone instead of zone-cell1', 'hosts': 3, 'also_fail': ''}
    assert zone in planned['changes']


def test_members_of_a_group_are_planned_apart(made):
    apart = (*SMALL, '--policy', 'anti-affinity')
    code, planned, _ = plan(made, PlanBoot, *apart, '--count', '7')
    assert (code, planned['fits']) == (3, 6)
    assert len({each['host'] for each in planned['placed']}) == 6
    changes = [each['change'] for each in planned['changes'] if each['hosts']]
    assert changes == ['without ServerGroupAntiAffinityFilter']


def test_the_same_plan_has_the_same_id_until_something_changes(made):
    _, first, _ = plan(made, PlanBoot, *SMALL)
    expected = ('--expect', first['plan_id'])
    code, second, said = plan(made, PlanBoot, *SMALL, *expected)
    assert (code, second['plan_id'], said) == (0, first['plan_id'], '')
    (placed,) = first['placed']  # what is planned is what changes
    words = (*SMALL, '--host', placed['host'])
    assert run_lab(made, BootServers, 'one', *words)[0] == 0
    code, third, said = plan(made, PlanBoot, *SMALL, *expected)
    assert (code, third['fits']) == (4, 1)
    assert said == f'warning: this is plan {third["plan_id"]}: something has changed\n'


def test_servers_that_leave_a_host_go_where_the_plan_says(made):
    zone = ('--availability-zone', 'zone-cell1')
    group = ('--group', 'web', '--policy', 'anti-affinity', '--count', '2')
    for name, flavor, more in (
        ('web', 'vcpus=1,ram=512,disk=1', group),
        ('large', 'vcpus=2,ram=2048,disk=5', ('--count', '3')),
        ('small', 'vcpus=1,ram=1024,disk=2', ('--count', '3')),
    ):
        words = (name, '--flavor', flavor, *zone, *more)
        assert run_lab(made, BootServers, *words)[0] == 0
    _, planned, said = plan(made, PlanDrain, 'cell1-h1')
    assert (planned['unplaced'], said) == ([], '')
    assert planned['fits'] >= 2
    assert 'cell1-h1' not in {each['host'] for each in planned['placed']}
    assert planned['tightest']['flavor'] == 'inline'
    for each in planned['placed']:
        code, moved, _ = run_lab(made, MoveServer, each['server'])
        assert (code, moved[0]['To']) == (0, each['host'])


def test_a_drain_says_which_server_has_no_place(made):
    trusted = 'vcpus=1,ram=9000,disk=1,trust:trusted_host=trusted'
    words = ('--flavor', trusted, '--availability-zone', 'zone-cell2')
    assert run_lab(made, BootServers, 'big', *words, '--count', '3')[0] == 0
    code, planned, _ = plan(made, PlanDrain, 'cell2-h2', '--evacuate')
    assert (code, planned['fits'], planned['asked']) == (3, 0, 1)
    (stuck,) = planned['unplaced']
    assert stuck['name'].startswith('big-')
    assert stuck['explanation']['result'] == 'unschedulable'
    code, planned, _ = plan(made, PlanDrain, '--zone', 'zone-cell2', '--one-of')
    assert (code, planned['fits'], planned['asked']) == (3, 0, 3)
    assert [each['host'] for each in planned['hosts']] == [
        'cell2-h1', 'cell2-h2', 'cell2-h3',
    ]  # fmt: skip
    (note,) = planned['notes']
    assert note.startswith('Flavor inline asks for trust:trusted_host=trusted, which')
    code, planned, _ = plan(made, PlanDrain, '--cell', 'cell1')
    assert (code, planned['asked']) == (0, 0)
    _, text, _ = plan(made, PlanDrain, 'cell1-h1', form='text')
    assert text == 'Nothing runs on cell1-h1.\n'


def test_a_move_can_be_tried_with_another_flavor_and_to_a_host(made):
    _, (server,), _ = run_lab(made, BootServers, 'one', *SMALL, '--host', 'cell1-h1')
    code, planned, _ = plan(made, PlanMove, 'one', '--to', 'cell1-h3')
    assert (code, planned['placed'][0]['host']) == (0, 'cell1-h3')
    assert planned['placed'][0]['server'] == server['ID']
    huge = ('--flavor', 'vcpus=1,ram=99999,disk=1')
    assert plan(made, PlanMove, 'one', *huge)[0] == 3
    assert run_lab(made, BootServers, 'failed', *huge)[0] == 1
    with pytest.raises(errors.OptionError, match='failed is on no host'):
        plan(made, PlanMove, 'failed')
    code, planned, _ = plan(made, PlanBoot, '--like', 'failed')
    assert (code, planned['changes'][0]['hosts']) == (3, 6)
    with pytest.raises(errors.OptionError, match='there is no server other'):
        plan(made, PlanMove, 'other')
    with pytest.raises(errors.OptionError, match=r'Did you mean cell1-h3\?'):
        plan(made, PlanMove, 'one', '--to', 'cell1-h')


def test_why_not_asks_every_condition(made):
    group = ('--group', 'web', '--policy', 'anti-affinity')
    _, (server,), _ = run_lab(made, BootServers, 'web', *SMALL, *group)
    with disabled(made, server['Host']):
        words = ('--flavor', 'vcpus=1,ram=99999,disk=1', '--group', 'web')
        words += ('--project-id', 'project')
        code, answer, _ = plan(made, WhyNot, server['Host'], *words)
        assert (code, answer['fits'], answer['rank']) == (3, False, None)
        failing = {each['name']: each['code'] for each in answer['conditions']
                   if not each['passes']}  # fmt: skip
        assert failing == {
            'placement': 'amount-not-allowed',
            'ComputeFilter': 'service-disabled',
            'ServerGroupAntiAffinityFilter': 'group-limit',
        }


def test_why_not_gives_the_rank_of_a_host_that_fits(made):
    _, planned, _ = plan(made, PlanBoot, *SMALL)
    best = planned['placed'][0]['host']
    assert run_lab(made, BootServers, 'one', *SMALL, '--host', best)[0] == 0
    code, answer, _ = plan(made, WhyNot, best, *SMALL)
    assert (code, answer['rank'], answer['of']) == (0, 6, 6)
    assert answer['beaten_by']['weighers'].keys() >= {'RAMWeigher'}
    code, text, _ = plan(made, WhyNot, best, *SMALL, form='text')
    assert text.splitlines()[-1].startswith('It is number 6 of 6: ')
    with pytest.raises(errors.OptionError, match='there is no host cell1-h9'):
        plan(made, WhyNot, 'cell1-h9', *SMALL)


@pytest.fixture
def json_filter(made):
    """One server a host, and a filter that hints ask something of."""
    filters = ['ComputeFilter', 'IoOpsFilter', 'NumInstancesFilter', 'JsonFilter']
    options = {'enabled_filters': filters, 'max_instances_per_host': 1}
    for name, value in options.items():
        made.conf.set_override(name, value, 'filter_scheduler')
    yield
    for name in options:
        made.conf.clear_override(name, 'filter_scheduler')


def test_why_not_agrees_with_the_record_of_a_failure(made, json_filter):
    big = ('--flavor', 'vcpus=1,ram=16000,disk=1', '--host', 'cell1-h1')
    assert run_lab(made, BootServers, 'big', *big)[0] == 0
    assert run_lab(made, BootServers, 'one', *SMALL, '--host', 'cell1-h2')[0] == 0
    with disabled(made, 'cell2-h1'):
        words = (*SMALL, '--hint', 'query=["=", "$host", "nobody"]')
        _, planned, _ = plan(made, PlanBoot, *words, '--explain', '--long')
        explained = planned['unplaced'][0]['explanation']
        assert explained['blocker'] == 'filters'
        fates = {
            'cell1-h1': 'placement',
            'cell1-h2': 'NumInstancesFilter',
            'cell1-h3': 'JsonFilter',
            'cell2-h1': 'ComputeFilter',
        }
        recorded = {
            stage['name']: {reason['code'] for reason in stage['reasons']}
            for stage in explained['stages']
        }
        for host, stage in fates.items():
            _, answer, _ = plan(made, WhyNot, host, *words)
            first = next(each for each in answer['conditions'] if not each['passes'])
            assert (first['name'], {first['code']}) == (stage, recorded[stage]), host


def test_a_cell_that_is_away_is_named(made):
    with away(made, 'cell2'):
        warning = 'warning: cell2 does not answer; its hosts are not in this\n'
        code, planned, said = plan(made, PlanBoot, *SMALL)
        assert (code, planned['cells_left_out'], said) == (0, ['cell2'], warning)
        code, _, said = plan(made, PlanBoot, '--flavor', 'vcpus=1,ram=99999,disk=1')
        assert (code, said) == (4, warning)


def test_request_of_a_server_is_planned_again(made):
    words = (*SMALL, '--availability-zone', 'zone-cell2')
    assert run_lab(made, BootServers, 'web', *words)[0] == 0
    code, planned, _ = plan(made, PlanBoot, '--like', 'web', '--count', '4')
    assert code == 0
    assert {each['host'][:5] for each in planned['placed']} == {'cell2'}
    words = ('--like', 'web', '--host', 'cell2-h3')
    assert plan(made, PlanBoot, *words)[1]['placed'][0]['host'] == 'cell2-h3'
    with pytest.raises(errors.OptionError, match='--availability-zone is part of it'):
        plan(made, PlanBoot, *words, '--availability-zone', 'zone-cell1')


@contextlib.contextmanager
def unreadable_servers(whole, cell):
    """Have the servers of a cell unreadable, while its hosts are still read."""

    def rename(before, after):
        with whole.cloud.databases[cell].cell.begin() as connection:
            connection.exec_driver_sql(f'ALTER TABLE {before} RENAME TO {after}')

    rename('instance_extra', 'lost')
    yield
    rename('lost', 'instance_extra')


@cases(
    'kind, words',
    ('a server is moved', PlanMove, ('one',)),
    more=(
        ('a host is drained', PlanDrain, ('cell1-h1',)),
        ('a cell is drained', PlanDrain, ('--cell', 'cell1')),
    ),
)
def test_servers_that_cannot_be_read_leave_the_answer_in_part(made, kind, words):
    for name, host in (('one', 'cell2-h1'), ('two', 'cell1-h1')):
        assert run_lab(made, BootServers, name, *SMALL, '--host', host)[0] == 0
    with unreadable_servers(made, 'cell1'):
        code, planned, said = plan(made, kind, *words)
    assert (code, planned['fits'] == planned['asked']) == (4, True)
    assert planned['cells_left_out'] == ['cell1']
    assert said == ('warning: cell1 stopped answering; its servers are not in this\n')


@cases(
    'by, code',
    ('it may have one of the same name', 'Name', 4),
    more=[('a uuid is that of one server', 'ID', 0)],
)
def test_a_move_beside_a_cell_that_is_away(made, by, code):
    _, (server,), _ = run_lab(made, BootServers, 'one', *SMALL, '--host', 'cell1-h1')
    with away(made, 'cell2'):
        found, planned, _ = plan(made, PlanMove, server[by])
        assert (found, planned['fits']) == (code, 1)


@cases(
    'text',
    ('a request with nothing in it', EMPTY),
    more=[('what is no request', 'no JSON')],
)
def test_one_odd_request_leaves_the_plans_of_others(made, text):
    for name in ('odd', 'web'):
        words = (name, *SMALL, '--host', 'cell1-h1')
        assert run_lab(made, BootServers, *words)[0] == 0
    specs = server_tables.request_specs
    odd = plan(made, PlanMove, 'odd')[1]['placed'][0]['server']
    with made.cloud.databases['api'].api.begin() as connection:
        change = specs.update().where(specs.c.instance_uuid == odd)
        connection.execute(change.values(spec=text))
    for kind, words in ((PlanDrain, ('cell1-h1',)), (PlanMove, ('odd', 'web'))):
        code, planned, _ = plan(made, kind, *words)
        assert (code, planned['fits'], planned['asked']) == (3, 1, 2)
        (stuck,) = planned['unplaced']
        assert (stuck['name'], stuck['explanation']) == ('odd', None)
        assert stuck['error']


@cases(
    'kind, words',
    ('it is drained', PlanDrain, ('cell2-h1',)),
    more=[('it is asked for', PlanBoot, (*SMALL, '--host', 'cell2-h1'))],
)
def test_a_host_of_a_cell_that_is_away_is_no_unknown_one(made, kind, words):
    with away(made, 'cell2'):
        with pytest.raises(errors.StoreFailed, match=r'Cell cell2 .* has cell2-h1'):
            plan(made, kind, *words)
        with pytest.raises(errors.OptionError, match='there is no host cell2-h9'):
            plan(made, PlanDrain, 'cell2-h9')

# SPDX-License-Identifier: Apache-2.0
"""Data sources of a cloud: over files, databases and placement."""

import contextlib
import dataclasses
import functools
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from novasched import errors
from novasched.console import cloud as console
from novasched.db import server_tables, tables
from novasched.decisions.reading import Criteria
from novasched.decisions.writing import DecisionWriter
from novasched.inspection.questions.reports import HostGroup
from novasched.inspection.session.orders import CapacityOrder, HostsOrder, PlanOrder
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.typed_json import to_json
from novasched_lab.local.placement import adapter_to
from tests.functional.commands import sources
from tests.functional.conftest import Host, named_uuid
from tests.support.records.stored_records import SetClock, make_record, write

HOSTS = (
    Host('h1', zone='az1'),
    Host('h2', zone='az1', disabled=True),
    Host('h3', zone='az2', cell='cell2', memory_mb=4096),
    Host('h4', zone='az2', cell='cell2', down=True),
)
SMALL = 'vcpus=1,ram=2048,disk=10'
PATIENT_S = 60.0


@pytest.fixture
def made(cloud, tmp_path):
    directory = tmp_path / 'decisions'
    made = cloud(HOSTS, novasched={'decisions_dir': str(directory)})
    writer = DecisionWriter(directory)
    now_s = int(SYSTEM_CLOCK.time())
    write(
        writer,
        [
            make_record(now_s - 300, 'h1', uuid=named_uuid('one')),
            make_record(now_s - 200, None, uuid=named_uuid('two')),
            make_record(now_s - 100, 'h3', uuid=named_uuid('three')),
        ],
    )
    writer.close()
    return made


@contextlib.contextmanager
def patient(made, *clock):
    """Open a cloud whose clients and checks wait as long as a busy machine needs."""
    with (
        pytest.MonkeyPatch.context() as patch,
        console.opened(made.conf, sources(made), *clock) as reader,
    ):
        patch.setattr(console, 'CHECK_S', PATIENT_S)
        for each in reader.bulkheads.values():
            patch.setattr(each, '_within_s', PATIENT_S)
        yield reader


@pytest.fixture
def reader(made):
    with patient(made) as opened:
        yield opened


def test_the_overview_is_of_the_last_hour(reader):
    found = reader.overview()
    assert found.window_s == 3600
    assert found.results == {'scheduled': 2, 'unschedulable': 1}
    assert len(found.minutes) >= 2
    assert reader.overview() is found


def test_decisions_go_on_from_page_to_page(reader):
    first = reader.decisions(Criteria(), None, 2)
    assert [list(each.picked) for each in first.decisions] == [['h3'], []]
    assert first.next == first.decisions[1].id
    second = reader.decisions(Criteria(), first.next, 2)
    assert [list(each.picked) for each in second.decisions] == [['h1']]
    assert (second.next, second.unanswered) == (None, [])
    with pytest.raises(errors.DecisionNotFound):
        reader.decisions(Criteria(), 'nonsense', 2)


def test_a_plan_names_hosts_and_claims_nothing(made, reader):
    order = PlanOrder(flavor=SMALL, count=3)
    for _ in range(2):
        found = reader.plan(order)
        assert (found.fits, found.asked) == (3, 3)
        assert {each.host for each in found.hosts} <= {'h1', 'h3'}
    assert made.held() == {}


def test_a_plan_says_what_would_change_the_answer(reader):
    found = reader.plan(PlanOrder(flavor='vcpus=1,ram=6000,disk=10', zone='az2'))
    assert (found.fits, found.hosts) == (0, [])
    enabled = PlanOrder(
        flavor='vcpus=1,ram=6000,disk=10', zone='az2', what_if=('add 2 like h3',)
    )
    assert reader.plan(enabled).fits == 0
    larger = PlanOrder(flavor=SMALL, count=5, what_if=('enable h2',))
    assert reader.plan(larger).fits == 5


def test_changed_option_applies_to_one_plan(made, reader):
    filters = 'option filter_scheduler.enabled_filters=AvailabilityZoneFilter'
    order = PlanOrder(flavor=SMALL, zone='az2', count=3)
    assert reader.plan(order).fits == 2
    changed = PlanOrder(flavor=SMALL, zone='az2', count=3, what_if=(filters,))
    assert reader.plan(changed).fits == 3
    assert reader.plan(order).fits == 2


def test_invalid_plan_is_an_option_error(reader):
    for order in (
        PlanOrder(),
        PlanOrder(flavor='huge'),
        PlanOrder(flavor=SMALL, zone='az9'),
        PlanOrder(flavor=SMALL, hints=('a',)),
        PlanOrder(flavor=SMALL, what_if=('hope',)),
        PlanOrder(like='d-0000000000000'),
        PlanOrder(flavor=SMALL, like='x'),
    ):
        with pytest.raises(errors.OptionError):
            reader.plan(order)


def test_capacity_by_zone(reader):
    found = reader.capacity(CapacityOrder((SMALL,), 'zone'))
    assert [(row.by, row.slots) for row in found.rows] == [('az1', 4), ('az2', 2)]
    assert found.not_counted == {'disabled': 1, 'down': 1}
    more = CapacityOrder((SMALL,), 'zone', what_if=('enable h2',))
    assert sum(row.slots for row in reader.capacity(more).rows) == 10


def test_heat_is_by_zone_and_aggregate(reader):
    assert reader.heat(SMALL).groups == [
        HostGroup('az1', '', [('h1', 4), ('h2', None)]),
        HostGroup('az2', '', [('h3', 2), ('h4', None)]),
    ]


def test_a_flavor_that_placement_would_refuse_has_no_heat_map(reader):
    with pytest.raises(errors.OptionError, match='no such trait CUSTOM_NONE'):
        reader.heat(f'{SMALL},trait:CUSTOM_NONE=required')


def test_hosts(reader):
    found = reader.hosts(HostsOrder(flavor=SMALL))
    assert (found.total, found.page, found.pages) == (4, 1, 1)
    assert [each.state for each in found.hosts] == [
        'enabled',
        'disabled',
        'enabled',
        'down',
    ]
    assert [each.slots for each in found.hosts] == [4, None, 2, None]
    assert found.hosts[2].used == {
        'DISK_GB': (0, 100),
        'MEMORY_MB': (0, 4096),
        'VCPU': (0, 8),
    }
    assert (found.cells, found.zones) == (['cell1', 'cell2'], ['az1', 'az2'])


def test_a_host_with_its_decisions(made, reader):
    found = reader.host('h1')
    assert found.nodes[0].up
    assert len(found.decisions) == 1
    assert found.unanswered == []
    with pytest.raises(errors.OptionError, match='there is no host h9'):
        reader.host('h9')


def add_flavor(made):
    row = {'id': 7, 'name': 'often', 'flavorid': 'often', 'memory_mb': 3000}
    row |= {'vcpus': 2, 'swap': 0, 'root_gb': 1, 'disabled': False, 'is_public': True}
    made.add('api', server_tables.flavors, **row, ephemeral_gb=0)


def test_flavors_are_those_that_servers_have(made, reader):
    add_flavor(made)
    server = {'uuid': named_uuid('one'), 'host': 'h1', 'display_name': 'one'}
    made.add('cell1', tables.instances, **server, instance_type_id=7, deleted=0)
    assert reader.flavors() == ['often']
    (row,) = reader.capacity(CapacityOrder()).rows
    assert (row.flavor, row.slots) == ('often', 3)
    (holder,) = reader.host('h1').holders
    newest = reader.decisions(Criteria(host='h1'), None, 1).decisions[0]
    assert holder.decision == newest.id


def test_health(reader):
    found = reader.health()
    assert found['status'] == 'pass'
    assert sorted(found['checks']) == [
        'api_database',
        'cell cell1',
        'cell cell2',
        'decisions',
        'placement',
        'policy',
    ]
    assert found['free_slots'] == []


def test_demand_that_no_enabled_filter_checks_is_named(made, reader):
    add_flavor(made)
    spec = {'flavor_id': 7, 'key': 'hw:numa_nodes', 'value': '2'}
    made.add('api', server_tables.flavor_extra_specs, **spec)
    said = (
        'Flavor often asks for hw:numa_nodes=2, which no enabled filter checks: add '
        'NUMATopologyFilter to [filter_scheduler] enabled_filters'
    )
    found = reader.health()
    assert (found['status'], found['checks']['policy']['output']) == ('warn', said)
    assert reader.plan(PlanOrder(flavor='often', count=2)).notes == [said]


def test_a_driver_that_does_not_filter_has_no_policy_to_check(made):
    made.conf.set_override('driver', 'chance_scheduler', 'scheduler')
    with patient(made) as reader:
        assert 'policy' not in reader.health()['checks']


def test_free_slots_of_the_flavors_that_are_configured(made):
    add_flavor(made)
    made.conf.set_override('flavors', ['unknown', 'often'], 'novasched_console')
    with patient(made) as reader:
        assert reader.health()['free_slots'] == [
            ['often', 'az1', 2],
            ['often', 'az2', 1],
        ]


@contextlib.contextmanager
def without(directory, name):
    """Take the database of a name away for a while."""
    path, aside = directory / name, directory / f'{name}.aside'
    path.rename(aside)
    try:
        yield
    finally:
        aside.replace(path)


def test_databases_that_are_away_come_back(made, tmp_path):
    clock = SetClock()
    with patient(made, clock) as reader:
        with without(tmp_path, 'api'):
            for ask in (
                lambda: reader.hosts(HostsOrder()),
                lambda: reader.plan(PlanOrder(flavor=SMALL)),
                reader.flavors,
            ):
                with pytest.raises(errors.StoreFailed, match='could not be asked'):
                    ask()
            found = reader.health()
            assert found['status'] == 'fail'
            assert 'could not be asked' in found['checks']['api_database']['output']
            assert reader.overview().results == {'scheduled': 2, 'unschedulable': 1}
        reader._sources.api_engine.dispose()
        clock.monotonic_s += 60
        assert reader.hosts(HostsOrder()).total == 4
        assert reader.health()['status'] == 'pass'


def test_a_cell_that_is_away_is_named(made, tmp_path):
    with without(tmp_path, 'cell2'), patient(made) as reader:
        found = reader.hosts(HostsOrder())
        assert (found.total, found.cells_left_out) == (2, ['cell2'])
        slots = reader.capacity(CapacityOrder((SMALL,)))
        assert slots.cells_left_out == {'cell2': 2}
        assert reader.plan(PlanOrder(flavor=SMALL)).cells_left_out == ['cell2']
        assert reader.heat(SMALL).cells_left_out == ['cell2']
        health = reader.health()
        assert (health['status'], health['checks']['cell cell2']['status']) == (
            'warn',
            'warn',
        )


def test_without_placement_hosts_are_shown_all_the_same(made):
    with adapter_to('http://127.0.0.1:1') as nowhere:
        read = dataclasses.replace(sources(made), placement=nowhere)
        with console.opened(made.conf, read) as reader:
            found = reader.hosts(HostsOrder())
            assert [each.used for each in found.hosts] == [{}] * 4
            assert 'cannot be reached: connection refused' in found.problem
            for ask in (
                lambda: reader.capacity(CapacityOrder((SMALL,))),
                lambda: reader.plan(PlanOrder(flavor=SMALL)),
            ):
                with pytest.raises(errors.StoreFailed, match='Placement'):
                    ask()
            assert reader.health()['checks']['placement']['status'] != 'pass'


@contextlib.contextmanager
def hung_placement():
    """Return an adapter to a placement that takes connections and never answers."""
    with (
        socket.create_server(('127.0.0.1', 0)) as server,
        adapter_to(f'http://127.0.0.1:{server.getsockname()[1]}') as adapter,
    ):
        yield adapter


def test_health_names_a_component_that_hangs(made):
    made.conf.set_override('flavors', [SMALL], 'novasched_console')
    with hung_placement() as hung:
        read = dataclasses.replace(sources(made), placement=hung)
        with console.opened(made.conf, read) as reader:
            found = reader.health()
            check = found['checks'].pop('placement')
            assert (check['status'], check['output']) == (
                'fail',
                'it did not answer within 3 s',
            )
            assert {each['status'] for each in found['checks'].values()} == {'pass'}
            assert (found['status'], found['free_slots']) == ('fail', [])


def test_health_names_decisions_that_cannot_be_read(reader, monkeypatch):
    def fails():
        raise errors.StoreFailed('The log', 'gone')

    monkeypatch.setattr(reader, 'overview', fails)
    found = reader.health()
    assert (found['status'], found['checks']['decisions']['status']) == ('warn', 'warn')
    assert 'gone' in found['checks']['decisions']['output']


def test_a_cloud_that_hangs_holds_half_of_the_threads(made, monkeypatch):
    made.conf.set_override('threads', 2, 'novasched_console')
    is_asked, may_end = threading.Event(), threading.Event()

    def hangs():
        is_asked.set()
        may_end.wait(30)
        raise errors.StoreFailed('Cell c', 'gone')

    with console.opened(made.conf, sources(made)) as reader:
        monkeypatch.setattr(reader._session, 'current', hangs)
        with ThreadPoolExecutor(1) as client:
            suggested = client.submit(reader.flavors)
            assert is_asked.wait(30)
            with pytest.raises(errors.Busy, match='1 client waiting for questions'):
                reader.hosts(HostsOrder())
            with pytest.raises(errors.Busy, match='takes longer than 3 s'):
                suggested.result()
        may_end.set()


def test_decisions_are_seen_once_this_machine_has_begun_to_keep_them(cloud, tmp_path):
    directory, clock = tmp_path / 'decisions', SetClock()
    made = cloud(HOSTS[:1], novasched={'decisions_dir': str(directory)})
    with patient(made, clock) as reader:
        assert reader.decisions(Criteria(), None, 5).decisions == []
        assert reader.health()['checks']['decisions']['status'] == 'warn'
        writer = DecisionWriter(directory)
        write(writer, [make_record(int(SYSTEM_CLOCK.time()), 'h1')])
        writer.close()
        clock.monotonic_s += console.OWN_LOG_AGE_S
        assert len(reader.decisions(Criteria(), None, 5).decisions) == 1
        assert reader.health()['status'] == 'pass'


def test_a_hundred_clients_at_once(made):
    def outcome(ask):
        try:
            return len(to_json(ask()))
        except errors.Busy as problem:
            return str(problem)

    # Answers get no older meanwhile, however long a busy machine takes.
    with patient(made, SetClock()) as reader:
        asked = [
            lambda: reader.capacity(CapacityOrder((SMALL,), 'zone')),
            lambda: reader.hosts(HostsOrder(flavor=SMALL)),
            lambda: reader.heat(SMALL),
            lambda: reader.decisions(Criteria(), None, 5),
            reader.overview,
            *(
                functools.partial(reader.plan, PlanOrder(flavor=SMALL, count=count))
                for count in (1, 2, 3, 4, 5)
            ),
        ]
        with ThreadPoolExecutor(100) as clients:
            found = list(clients.map(outcome, asked * 10))
        words = {each for each in found if isinstance(each, str)}
        assert all('again' in each for each in words)
        # Placement was not asked for each of them.
        assert made.faults.seen['GET'] < 40
        assert made.faults.seen['PUT'] == made.faults.seen['POST'] == 0
        assert reader.plan(PlanOrder(flavor=SMALL, count=5)).fits == 5


def test_options_that_no_page_changes(reader):
    """They name code or servers, or cannot be."""
    for change, words in (
        ('filter_scheduler.weight_classes=this.x', 'only the operator'),
        ('filter_scheduler.available_filters=this.x', 'only the operator'),
        ('scheduler.driver=this', 'only the operator'),
        ('placement_database.connection=sqlite:///x', 'only the operator'),
        ('api_database.connection=sqlite:///x', 'only the operator'),
        ('DEFAULT.transport_url=rabbit://x', 'only the operator'),
        ('filter_scheduler.enabled_filters=RAMFilte', 'RAMFilte could not be found'),
        ('filter_scheduler.max_io_ops_per_host=many', 'many'),
        ('filter_scheduler.no_such_option=1', 'no_such_option'),
    ):
        what_if = (f'option {change}',)
        with pytest.raises(errors.OptionError, match=words):
            reader.plan(PlanOrder(flavor=SMALL, what_if=what_if))
        with pytest.raises(errors.OptionError, match=words):
            reader.capacity(CapacityOrder(flavors=(SMALL,), what_if=what_if))


def test_hosts_are_added_up_to_a_bound(reader):
    few = ('add 300 like h1', 'add 200 like h1')
    assert reader.plan(PlanOrder(flavor=SMALL, what_if=few)).fits == 1
    many = PlanOrder(flavor=SMALL, what_if=(*few, 'add 501 like h1'))
    with pytest.raises(errors.OptionError, match='more than 1000 hosts'):
        reader.plan(many)


def test_a_changed_option_shows_no_other_one(made, reader):
    made.conf.set_override('connection', 'mysql://nova:SECRET@h/x', 'api_database')
    change = 'option filter_scheduler.enabled_filters=$api_database.connection'
    with pytest.raises(errors.NovaschedError) as raised:
        reader.plan(PlanOrder(flavor=SMALL, what_if=(change,)))
    assert 'SECRET' not in str(raised.value)
    assert '$api_database' in str(raised.value)


def test_flavors_written_in_full_stay_distinct(reader):
    two = (SMALL, 'vcpus=2,ram=4096,disk=10')
    rows = reader.capacity(CapacityOrder(flavors=two)).rows
    assert [row.flavor for row in rows] == list(two)

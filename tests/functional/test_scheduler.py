# SPDX-License-Identifier: Apache-2.0
"""A composed scheduler on databases and the real placement."""

import threading

import pytest

from novasched import errors
from novasched.db import tables
from novasched.objects.request_spec import CellMapping, Destination
from novasched.runtime.clock import SystemClock
from tests.functional.conftest import Host, new_uuids
from tests.support.clouds import factories
from tests.support.tables.cases import cases

THREE = [Host('h1', memory_mb=9000), Host('h2', memory_mb=8500), Host('h3')]


def test_a_boot_is_claimed_on_the_best_host(cloud):
    made = cloud(THREE)
    (uuid,) = new_uuids()
    assert made.ask(made.compose(), [uuid]) == [['h1']]
    assert made.held() == {uuid: {'h1'}}


def test_members_of_an_anti_affinity_group_get_a_host_each(cloud):
    made = cloud(THREE)
    uuids = new_uuids(3)
    group = factories.group(members=uuids)
    found = made.ask(made.compose(), uuids, instance_group=group)
    assert sorted(host for (host,) in found) == ['h1', 'h2', 'h3']
    assert made.held() == {u: {host} for u, (host,) in zip(uuids, found, strict=True)}


def test_more_instances_than_room_leave_nothing_claimed(cloud):
    made = cloud([Host('h1', vcpus=2), Host('h2', vcpus=1)])
    scheduler = made.compose()
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        made.ask(scheduler, new_uuids(4))
    assert made.held() == {}
    uuids = new_uuids(3)
    assert sorted(made.ask(scheduler, uuids)) == [['h1'], ['h1'], ['h2']]
    assert made.held().keys() == set(uuids)


def test_two_schedulers_race_for_the_last_places(cloud):
    made = cloud([Host('h1', vcpus=2), Host('h2', vcpus=1)])
    schedulers = [made.compose(), made.compose()]
    together = threading.Barrier(6)
    answers = []

    def ask(scheduler, uuid):
        together.wait(20)
        try:
            answers.append((uuid, made.ask(scheduler, [uuid])[0][0]))
        except errors.NoValidHost:
            answers.append((uuid, None))

    threads = [
        threading.Thread(target=ask, args=(schedulers[number % 2], uuid))
        for number, uuid in enumerate(new_uuids(6))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    won = {uuid: {host} for uuid, host in answers if host}
    assert len(answers) == 6
    assert sorted(host for (host,) in won.values()) == ['h1', 'h1', 'h2']
    assert made.held() == won


def test_two_schedulers_of_one_process_have_rules_of_their_own(cloud):
    made = cloud(THREE)
    plain = made.compose()
    made.conf.set_override('ram_weight_multiplier', -1.0, 'filter_scheduler')
    stacking = made.compose()
    assert made.ask(plain, new_uuids()) == [['h1']]
    assert made.ask(stacking, new_uuids()) != [['h1']]
    assert made.ask(plain, new_uuids()) == [['h1']]


class TestAlternates:
    HOSTS = [
        Host('h1', memory_mb=9000),
        Host('h2', memory_mb=8900),
        Host('h3', memory_mb=8800),
        Host('h4', memory_mb=8700),
        Host('far', cell='cell2'),
    ]

    def test_they_are_of_the_cell_and_carry_candidates(self, cloud):
        made = cloud(self.HOSTS)
        made.serve()
        (uuid,) = new_uuids()
        ((best, *others),) = made.call([uuid])
        assert best.service_host == 'h1'
        assert [other.service_host for other in others] == ['h2', 'h3']
        for other in (best, *others):
            assert made.hosts[other.service_host].uuid in other.allocation_request
            assert other.allocation_request_version == '1.36'
            assert other.cell_uuid == made.cell_uuids['cell1']
        assert made.held() == {uuid: {'h1'}}

    def test_selected_hosts_are_not_alternates(self, cloud):
        made = cloud(self.HOSTS, scheduler={'max_attempts': 9})
        uuids = new_uuids(2)
        group = factories.group(members=uuids)
        found = made.ask(
            made.compose(), uuids, return_alternates=True, instance_group=group
        )
        assert found == [['h1', 'h3', 'h4'], ['h2', 'h3', 'h4']]


class TestNamedHosts:
    def test_a_requested_destination_is_filtered(self, cloud):
        made = cloud([Host('h1'), Host('h2', down=True)])
        scheduler = made.compose()
        wanted = factories.destination('h1')
        found = made.ask(scheduler, new_uuids(), requested_destination=wanted)
        assert found == [['h1']]
        with pytest.raises(errors.NoValidHost):
            made.ask(
                scheduler,
                new_uuids(),
                requested_destination=factories.destination('h2'),
            )


class TestCells:
    HOSTS = [Host('near', memory_mb=9000), Host('far', cell='cell2')]

    def destination(self, made, cell, **values):
        return Destination(
            cell=CellMapping(
                uuid=made.cell_uuids[cell],
                name=cell,
                transport_url='rabbit://',
                database_connection='unused',
            ),
            **values,
        )

    def test_a_requested_cell_is_not_left(self, cloud):
        made = cloud(self.HOSTS)
        wanted = self.destination(made, 'cell2')
        found = made.ask(made.compose(), new_uuids(), requested_destination=wanted)
        assert found == [['far']]

    @cases(
        'weight, expected',
        ('the cell is preferred', 1e6, 'far'),
        ('a better host is preferred', 0.0, 'near'),
    )
    def test_a_move_across_cells_may_leave_it(self, cloud, weight, expected):
        made = cloud(self.HOSTS)
        made.conf.set_override(
            'cross_cell_move_weight_multiplier', weight, 'filter_scheduler'
        )
        wanted = self.destination(made, 'cell2', allow_cross_cell_move=True)
        found = made.ask(made.compose(), new_uuids(), requested_destination=wanted)
        assert found == [[expected]]

    @pytest.mark.parametrize('filters', [[], ['AggregateInstanceExtraSpecsFilter']])
    def test_a_disabled_cell_is_used_only_where_it_is_requested(self, cloud, filters):
        """A filter that reads aggregates has them verified."""
        made = cloud(
            [Host('near'), Host('far', cell='cell2', memory_mb=9000)],
            filter_scheduler={'enabled_filters': ['ComputeFilter', *filters]},
        )
        disable(made, 'cell2')
        scheduler = made.compose()
        assert made.ask(scheduler, new_uuids()) == [['near']]
        wanted = self.destination(made, 'cell2')
        found = made.ask(scheduler, new_uuids(), requested_destination=wanted)
        assert found == [['far']]


def disable(made, cell):
    from novasched.db import tables

    table = tables.cell_mappings
    with made.databases['api'].api.begin() as connection:
        connection.execute(
            table.update().where(table.c.name == cell).values(disabled=True)
        )


def test_an_availability_zone_is_kept_and_answered(cloud):
    made = cloud([Host('h1', zone='az1', memory_mb=9000), Host('h2', zone='az2')])
    made.serve()
    ((selection,),) = made.call(
        new_uuids(), return_alternates=False, availability_zone='az2'
    )
    assert (selection.service_host, selection.availability_zone) == ('h2', 'az2')


def test_a_zone_is_known_before_a_message_tells_of_it(cloud):
    made = cloud([Host('h1', zone='az1', memory_mb=9000), Host('h2', zone='az2')])
    scheduler = made.compose()
    metadata = tables.aggregate_metadata
    now = SystemClock().utcnow()
    renamed = metadata.update().where(metadata.c.value == 'az2')
    with made.databases['api'].api.begin() as connection:
        connection.execute(renamed.values(value='new', updated_at=now))
    assert made.ask(scheduler, new_uuids(), availability_zone='new') == [['h2']]


def test_an_evacuated_instance_keeps_its_source_too(cloud):
    made = cloud(THREE)
    scheduler = made.compose()
    (uuid,) = new_uuids()
    assert made.ask(scheduler, [uuid]) == [['h1']]
    assert made.ask(scheduler, [uuid], ignore_hosts=['h1']) == [['h2']]
    assert made.held() == {uuid: {'h1', 'h2'}}

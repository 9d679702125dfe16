# SPDX-License-Identifier: Apache-2.0
"""Answers as if the cloud were another: counted, and planned."""

import dataclasses
import functools

import pytest
import sqlalchemy as sa

from novasched import errors
from novasched.commands.plan import PlanBoot
from novasched.db.transactions import Database
from novasched.inspection.questions import capacity, plan
from novasched.inspection.session import session
from novasched.inspection.session.catalogue import flavor_of
from novasched.inspection.session.orders import BootOrder, CapacityOrder
from novasched.inspection.session.what_if import WhatIf
from novasched.placement_copy.readers import api
from novasched.placement_copy.readers.database import DatabaseReader
from novasched.providers.contents import build
from tests.functional.commands import run, sources
from tests.functional.conftest import Host
from tests.support.clouds import factories

TWO = 'vcpus=2,ram=512,disk=1'
PINNED = f'{TWO},hw:cpu_policy=dedicated'
FILTERS = ['AvailabilityZoneFilter', 'ComputeFilter', 'NUMATopologyFilter']


@pytest.fixture(scope='module')
def shared(module_cloud):
    node = factories.numa_topology(
        factories.numa_cell(0, range(8), pinned=range(6), cpu_usage=6)
    )
    hosts = [
        Host('rack1-a', zone='az1', numa_topology=node),
        Host('rack1-b', zone='az1'),
        Host('rack2-a', cell='cell2', vcpus=4),
        Host('rack2-off', disabled=True),
    ]
    return module_cloud(
        hosts,
        DEFAULT={'service_down_time': 3600},
        filter_scheduler={'enabled_filters': FILTERS},
    )


@pytest.fixture
def made(shared):
    """The cloud that tests share; what they try on its options is taken back."""
    shared.faults.seen.clear()
    yield shared
    shared.conf.set_override('enabled_filters', FILTERS, 'filter_scheduler')
    for name in ('max_instances_per_host', 'host_subset_size'):
        shared.conf.clear_override(name, 'filter_scheduler')


def slots(made, *changes, flavor=TWO, by='host'):
    """Return the slots of a flavor by host, those of hosts that have some."""
    what_if = WhatIf.of(changes)
    with session.opened(made.conf, what_if=what_if, sources=sources(made)) as opened:
        answer = capacity.answer(opened, CapacityOrder((flavor,), by))
    return {row.by: row.slots for row in answer.rows if row.slots}


NOW = {'rack1-a': 4, 'rack1-b': 4, 'rack2-a': 2}


@pytest.mark.parametrize(
    ('changes', 'expected'),
    [
        pytest.param([], NOW, id='nothing'),
        pytest.param(['disable rack1-*'], {'rack2-a': 2}, id='disable'),
        pytest.param(['enable rack2-off'], {**NOW, 'rack2-off': 4}, id='enable'),
        pytest.param(['remove rack?-a'], {'rack1-b': 4}, id='remove'),
        pytest.param(
            ['add 2 like rack2-a'],
            {**NOW, 'rack2-a+1': 2, 'rack2-a+2': 2},
            id='add',
        ),
        pytest.param(
            ['trait rack1-a +COMPUTE_STATUS_DISABLED'],
            {'rack1-b': 4, 'rack2-a': 2},
            id='trait',
        ),
        pytest.param(
            [
                'trait rack1-a +COMPUTE_STATUS_DISABLED',
                'trait rack1-a -COMPUTE_STATUS_DISABLED',
            ],
            NOW,
            id='a trait and back',
        ),
        pytest.param(
            ['ratio VCPU=0.5 rack1-b'], {**NOW, 'rack1-b': 2}, id='ratio of a host'
        ),
        pytest.param(
            ['ratio VCPU=2.0 az1'],
            {'rack1-a': 8, 'rack1-b': 8, 'rack2-a': 2},
            id='ratio of an aggregate',
        ),
        pytest.param(
            ['option filter_scheduler.enabled_filters=ComputeFilter,NumInstancesFilter',
             'option filter_scheduler.max_instances_per_host=3'],
            {'rack1-a': 3, 'rack1-b': 3, 'rack2-a': 2},
            id='options',
        ),
    ],
)  # fmt: skip
def test_changes(made, changes, expected):
    assert slots(made, *changes) == expected


def test_a_host_that_is_added_has_nothing_on_it(made):
    assert slots(made, flavor=PINNED) == {'rack1-a': 1}
    found = slots(made, 'add 1 like rack1-a', flavor=PINNED)
    assert found == {'rack1-a': 1, 'rack1-a+1': 4}


def test_zones(made):
    assert slots(made, by='zone') == {'az1': 8, 'nova': 2}
    moved = 'aggregate az1 -rack1-b +rack2-a'
    assert slots(made, moved, by='zone') == {'az1': 6, 'nova': 4}
    renamed = 'property az1 availability_zone=az9'
    assert slots(made, renamed, by='zone') == {'az9': 8, 'nova': 2}


def test_a_plan(made):
    """Ten fit only where a host is added; placement is not written."""

    def planned(*changes):
        what_if = WhatIf.of(changes)
        given = {'what_if': what_if, 'sources': sources(made)}
        with session.opened(made.conf, **given) as opened:
            asked = opened.maker.boot(flavor_of(TWO), order=BootOrder(count=11))
            return plan.boot(opened.run, asked)

    assert planned().fits < 11
    report = planned('add 1 like rack1-b')
    assert report.fits == 11
    assert 'rack1-b+1' in {each.host for each in report.placed}
    assert made.faults.seen.keys() == {'GET'}


@pytest.fixture
def planned(made):
    """Plan to boot: `planned(*words)`."""

    return functools.partial(run, made, PlanBoot, '--flavor', TWO)


def test_the_age_of_what_a_plan_is_made_of(made):
    """It is as old as the copy of placement."""
    what_if = WhatIf.of(['disable rack2-a'])
    with session.opened(made.conf, what_if=what_if, sources=sources(made)) as opened:
        opened.copies()
        old = opened.copies._own
        opened.copies._own = dataclasses.replace(old, as_of=old.as_of - 40)
        report = plan.boot(opened.run, opened.maker.boot(flavor_of(TWO)))
    assert 40 <= report.placement_age_s < 100
    with session.opened(made.conf, sources=sources(made)) as opened:
        report = plan.boot(opened.run, opened.maker.boot(flavor_of(TWO)))
    assert report.placement_age_s < 10


def test_the_same_by_the_database_of_placement(made, monkeypatch):
    """Changes do the same to what is guessed of capacities and to what is known."""
    monkeypatch.setattr(api, 'AT_ONCE', 0)
    engine = sa.create_engine(f'sqlite:///{made.placement_path}')
    exact = DatabaseReader(Database(engine)).read()
    engine.dispose()
    changes = ['add 1 like rack1-b', 'ratio VCPU=3.0', 'remove rack2-a']
    what_if = WhatIf.of(changes)
    with session.opened(made.conf, what_if=what_if, sources=sources(made)) as opened:
        shown = opened.copies.store.read()
        assert shown.guessed
        by_api = build(what_if.contents(shown))
        by_database = build(what_if.contents(exact))
        assert opened.run.reader.view.unavailable_cells() == ()
    assert sorted(by_api.uuids) == sorted(by_database.uuids)
    for uuid in by_api.uuids:
        one, other = (
            table.summary(table.rows_by_uuid[uuid]) for table in (by_api, by_database)
        )
        assert one['resources'] == other['resources']
        assert sorted(one['traits']) == sorted(other['traits'])


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ('disable', 'this is no change'),
        ('explode rack1-a', 'this is no change'),
        ('disable "rack1-a', 'No closing quotation'),
        ('add many like rack1-a', 'this is no change'),
        ('trait rack1-a HW_X', 'this is no change'),
        ('property az1 key', 'key is no pair'),
        ('option max_attempts', 'max_attempts is no pair'),
    ],
)
def test_words_that_are_no_change(change, words):
    with pytest.raises(errors.OptionError, match=f'--what-if.*{words}'):
        WhatIf.of([change])


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ('disable rack9', 'there is no host rack9'),
        ('add 10001 like rack1-a', 'more than 10000 hosts'),
        ('aggregate az9 +rack1-a', 'there is no aggregate az9'),
        ('aggregate az1 rack1-a', 'rack1-a is neither'),
        ('ratio VCPU=many', 'many is no ratio'),
        ('ratio VCPU=2 rack9', 'there is no host rack9'),
        ('option nonsense.nothing=1', 'no such group'),
        ('option filter_scheduler.max_instances_per_host=x', 'Invalid|invalid'),
        ('option filter_scheduler.host_subset_size=', 'it has no value'),
        ('option filter_scheduler.ram_weight_multiplier= ', 'is no change|no value'),
    ],
)
def test_invalid_changes_are_refused(made, change, words):
    with pytest.raises(errors.OptionError, match=words) as raised:
        slots(made, change)
    assert '--what-if' in str(raised.value)

# SPDX-License-Identifier: Apache-2.0
"""Decisions on what is known of the hosts: what is picked is as its cell says by now.

What is known is that of the start, however old, but where a test has it looked at.
"""

import random

import pytest

from novasched import errors
from novasched.db import tables
from tests.functional.conftest import Host, new_uuids
from tests.support.clouds.computes import UNFIT, Computes
from tests.support.tables.cases import cases
from tests.support.tables.examples import scaled

SMALL = {'vcpus': 1, 'memory_mb': 64, 'root_gb': 1}
FILTERS = ['ComputeFilter', 'NumInstancesFilter']
KNOWN = {'host_state_max_age': 3600}


@pytest.fixture
def make(cloud):
    """Make a cloud of hosts h0, the best, to h5, and a scheduler that knows it."""

    def made(hosts=6, zone=None, filters=FILTERS, **novasched):
        of_cloud = cloud(
            [Host(f'h{n}', zone=zone, memory_mb=16384 - n) for n in range(hosts)],
            novasched={**KNOWN, **novasched},
            filter_scheduler={'enabled_filters': filters},
        )
        scheduler = of_cloud.compose()
        scheduler.view.load()
        scheduler.view.known()
        return of_cloud, scheduler, Computes(of_cloud)

    return made


def at_verification(scheduler, do):
    """Do something right before hosts are verified for the next time."""
    view, verify = scheduler.view, scheduler.view.changed

    def changed(*args, **options):
        view.changed = verify
        do()
        return verify(*args, **options)

    view.changed = changed


@pytest.mark.scenario('F43', 'I6')
@pytest.mark.parametrize('happens', UNFIT, ids=lambda each: each.__name__)
@pytest.mark.parametrize('is_seen', [False, True], ids=['unseen', 'seen by others'])
def test_a_host_that_has_become_unfit_is_not_answered(make, happens, is_seen):
    made, scheduler, computes = make()

    def happens_now():
        happens(computes, 'h0')
        if is_seen:  # another request has it read before this one's pick is verified
            scheduler.view.refresh()

    at_verification(scheduler, happens_now)
    found = made.ask(scheduler, new_uuids(), return_alternates=True, **SMALL)
    assert found == [['h1', 'h2', 'h3']]
    assert len(made.decisions) == 2


def test_an_alternate_that_has_become_unfit_is_replaced(make):
    made, scheduler, computes = make()
    computes.disable('h1')
    found = made.ask(scheduler, new_uuids(), return_alternates=True, **SMALL)
    assert found == [['h0', 'h2', 'h3']]


def test_alternates_that_are_fit_again_make_up_for_those_that_are_not(make):
    made, scheduler, computes = make()
    for host in ('h3', 'h4', 'h5'):
        computes.disable(host)
    scheduler.view.refresh()
    for host in ('h3', 'h4', 'h5'):
        computes.restore(host)
    computes.disable('h1')
    found = made.ask(scheduler, new_uuids(), return_alternates=True, **SMALL)
    assert found == [['h0', 'h2', 'h3']]


READ_AGGREGATES = [*FILTERS, 'AggregateInstanceExtraSpecsFilter']


@cases(
    'filters, max_age_s, found',
    ('a filter reads aggregates', READ_AGGREGATES, 3600, 'h1'),
    ('a filter reads them, the cells were just looked at', READ_AGGREGATES, 0, 'h1'),
    ('none does', FILTERS, 3600, 'h0'),
)
def test_a_host_that_has_left_its_aggregate(make, filters, max_age_s, found):
    made, scheduler, _ = make(zone='az1', filters=filters, host_state_max_age=max_age_s)

    def leaves():
        table = tables.aggregate_hosts
        with made.databases['api'].api.begin() as connection:
            connection.execute(table.delete().where(table.c.host == 'h0'))

    at_verification(scheduler, leaves)
    specs = {'extra_specs': {'aggregate_instance_extra_specs:availability_zone': 'az1'}}
    assert made.ask(scheduler, new_uuids(), **SMALL, **specs) == [[found]]


def test_a_sign_of_life_costs_no_pick(make):
    made, scheduler, computes = make()
    computes.beat('h0')
    assert made.ask(scheduler, new_uuids(), **SMALL) == [['h0']]
    assert len(made.decisions) == 1


def test_servers_of_one_request_are_decided_again_together(make):
    made, scheduler, computes = make()
    for host in ('h0', 'h2'):
        computes.disable(host)
    found = made.ask(scheduler, new_uuids(3), **SMALL)
    assert {host for (host,) in found} <= {'h1', 'h3', 'h4', 'h5'}
    assert len(found) == 3


@pytest.mark.scenario('F43', 'I6')
def test_before_a_no_all_cells_are_looked_at(make):
    made, scheduler, computes = make()
    for host in made.hosts:
        computes.disable(host)
    scheduler.view.refresh()
    computes.restore('h4')
    assert made.ask(scheduler, new_uuids(), **SMALL) == [['h4']]


def test_all_cells_are_looked_at_where_the_hosts_known_are_full(make):
    made, scheduler, computes = make()
    for host in ('h1', 'h2', 'h3', 'h4', 'h5'):
        computes.disable(host)
    scheduler.view.refresh()
    computes.restore('h4')

    def fill():
        made.hold(*new_uuids(), h0={'MEMORY_MB': 16384})

    at_verification(scheduler, fill)
    assert made.ask(scheduler, new_uuids(), **SMALL) == [['h4']]


def test_before_too_few_alternates_all_cells_are_looked_at(make):
    made, scheduler, computes = make()
    for host in ('h0', 'h1', 'h2', 'h3'):
        computes.disable(host)
    scheduler.view.refresh()
    computes.restore('h0')
    found = made.ask(scheduler, new_uuids(), return_alternates=True, **SMALL)
    assert found == [['h0', 'h4', 'h5']]


def test_before_too_few_alternates_are_answered_all_cells_are_looked_at(make):
    """There were enough, but one has become unfit since; another is fit again."""
    made, scheduler, computes = make()
    for host in ('h4', 'h5'):
        computes.disable(host)
    scheduler.view.refresh()
    computes.restore('h5')
    at_verification(
        scheduler, lambda: at_verification(scheduler, lambda: computes.disable('h2'))
    )
    found = made.ask(scheduler, new_uuids(2), return_alternates=True, **SMALL)
    assert found == [['h0', 'h3', 'h5'], ['h1', 'h3', 'h5']]


def test_an_alternate_that_has_merely_changed_is_looked_at_again(make):
    made, scheduler, computes = make(hosts=4)
    at_verification(
        scheduler,
        lambda: at_verification(scheduler, lambda: computes.node('h2', vcpus_used=1)),
    )
    found = made.ask(scheduler, new_uuids(2), return_alternates=True, **SMALL)
    assert found == [['h0', 'h3', 'h2'], ['h1', 'h3', 'h2']]


def test_before_a_no_aggregates_are_read_that_filters_read(make):
    """A look at the cells alone, which was made for the request, does not show them."""
    made, scheduler, _ = make(zone='az1', filters=READ_AGGREGATES, host_state_max_age=0)
    table = tables.aggregate_hosts
    with made.databases['api'].api.begin() as connection:
        (row,) = connection.execute(
            table.select().where(table.c.host == 'h3')
        ).mappings()
        connection.execute(table.delete())
    scheduler.view.current_aggregates()
    with made.databases['api'].api.begin() as connection:
        connection.execute(table.insert().values(**row))
    specs = {'extra_specs': {'aggregate_instance_extra_specs:availability_zone': 'az1'}}
    assert made.ask(scheduler, new_uuids(), **SMALL, **specs) == [['h3']]


def test_a_host_by_name_that_is_new_is_found(make):
    made, scheduler, _ = make(hosts=1)
    new = Host('new')
    made.hosts['new'] = new
    made._write_host(new)
    made._provide([made.provider(new)])
    asked = made.ask(scheduler, new_uuids(), force_hosts=['new'], **SMALL)
    assert asked == [['new']]


@cases(
    'servers, novasched, looks',
    ('what is known is enough', 1, {}, 0),
    ('nothing is claimed', None, {}, 1),
    ('as nova does', 1, {'host_state_max_age': 0}, 1),
    ('too few hosts for the alternates', 5, {}, 1),
)
def test_a_request_looks_at_the_cells_when_it_must(make, servers, novasched, looks):
    made, scheduler, _ = make(**novasched)
    seen = []
    look = scheduler.view._shared_refresh
    read = look.read
    look.read = lambda: seen.append(1) or read()
    uuids = None if servers is None else new_uuids(servers)
    made.ask(scheduler, uuids, return_alternates=True, **SMALL)
    assert len(seen) == looks


def test_a_cell_that_is_gone_gives_no_host(make):
    made, scheduler, _ = make()

    def breaks():
        engine = made.databases[made.hosts['h0'].cell].cell
        tables.compute_nodes.drop(engine)

    at_verification(scheduler, breaks)
    with pytest.raises(errors.NoValidHost):
        made.ask(scheduler, new_uuids(), **SMALL)
    assert made.held() == {}


def test_no_answer_names_a_host_that_a_look_would_have_rejected(make):
    """Things happen before a request, and right before its pick is verified."""
    rng = random.Random(7)
    made, scheduler, computes = make(hosts=5)
    unfit = set()

    def happen():
        host = rng.choice(list(made.hosts))
        happens = rng.choice([*UNFIT, Computes.restore, Computes.restore])
        happens(computes, host)
        (unfit.discard if happens is Computes.restore else unfit.add)(host)

    answered = 0
    for _ in range(scaled(120)):
        for _ in range(rng.randrange(3)):
            happen()
        if rng.random() < 0.3:
            scheduler.view.refresh()
        if rng.random() < 0.5:
            at_verification(scheduler, happen)
        (uuid,) = new_uuids()
        wanted = {**SMALL, 'return_alternates': rng.choice([True, False])}
        try:
            found = made.ask(scheduler, [uuid], **wanted)
        except errors.NoValidHost:
            found = [[]]
        vars(scheduler.view).pop('changed', None)
        made.placement.release(uuid)
        fit = set(made.hosts) - unfit
        assert set(found[0]) <= fit
        assert bool(found[0]) == bool(fit)
        answered += bool(found[0])
    assert answered

# SPDX-License-Identifier: Apache-2.0
"""What placement answers, or does not, when it is asked who could take a request."""

from __future__ import annotations

import contextlib
import re

import pytest

from novasched import errors
from novasched.objects.context import RequestContext
from tests.faults import proxy
from tests.faults.conftest import PATIENT_S, child
from tests.functional.conftest import Host, named_uuid, new_uuids
from tests.support.clouds import factories
from tests.support.tables.cases import cases

HOSTS = [Host('h1', memory_mb=9000), Host('h2')]
QUERY = '^/allocation_candidates'
PAGE = proxy.answers(503, b'<html>no server is available</html>', 'text/html')
PINNED = {'hw:cpu_policy': 'dedicated'}
ONLY_A_GPU = {'resources:VCPU': '0', 'resources:MEMORY_MB': '0', 'resources:VGPU': '1'}


@pytest.fixture
def made(cloud):
    return cloud(HOSTS)


def ask(made, **values):
    return made.ask(made.compose(), new_uuids(), **values)


def queries(made):
    return [asked.path for asked in made.proxy.asked('GET', QUERY)]


# -- nested providers


def test_a_host_is_found_by_its_child_alone(cloud):
    host = Host('h1')
    made = cloud([host], [child(host, 'gpu', VGPU=1)])
    (uuid,) = uuids = new_uuids()
    request = {'extra_specs': ONLY_A_GPU, 'root_gb': 0}
    assert made.ask(made.compose(), uuids, **request) == [['h1']]
    assert made.amounts(uuid) == {'h1_gpu': {'VGPU': 1}}


# -- the limit


def all_but_the_last_disabled(count):
    names = [f'h{number}' for number in range(count)]
    return [Host(name, disabled=name != names[-1]) for name in names]


def test_the_host_behind_the_limit_is_found(cloud):
    made = cloud(all_but_the_last_disabled(8), scheduler={'max_placement_results': 3})
    assert ask(made) == [['h7']]
    assert 'limit=3' in queries(made)[0]


@pytest.mark.parametrize(('looks', 'asked'), [(True, 2), (False, 1)])
def test_no_look_behind_the_limit_where_it_is_turned_off(cloud, looks, asked):
    hosts = [Host(f'h{number}', disabled=True) for number in range(6)]
    made = cloud(
        hosts,
        scheduler={'max_placement_results': 3},
        novasched={'look_beyond_limit': looks},
    )
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        ask(made)
    assert len(queries(made)) == asked


def test_no_look_behind_the_limit_where_a_claim_failed(cloud):
    hosts = [Host(f'h{number}', vcpus=1) for number in range(6)]
    made = cloud(hosts, scheduler={'max_placement_results': 2})
    made.proxy.on('POST', '^/allocations$', proxy.answers(400, b'{}'), times=9)
    # The second claim is refused, and the first one cannot be undone.
    refused = proxy.answers(500, b'oops')
    made.proxy.on('PUT', '^/allocations/', refused, nth=2, times=3)
    uuids = new_uuids(2)
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        made.ask(made.compose(), uuids)
    assert len(queries(made)) == 1
    assert len(made.held()) == 1


def test_no_look_behind_a_limit_that_cut_nothing(cloud):
    hosts = [Host('h1', disabled=True), Host('h2', disabled=True)]
    made = cloud(hosts, scheduler={'max_placement_results': 3})
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        ask(made)
    assert len(queries(made)) == 1


@cases(
    'hints, limited',
    ('no hint', {}, True),
    ('a host is to be avoided', {'different_host': ['x']}, False),
)
def test_a_hint_about_other_servers_drops_the_limit(made, hints, limited):
    assert ask(made, scheduler_hints=hints) == [['h1']]
    assert ('limit=1000' in queries(made)[0]) == limited


# -- the second query, for shared CPUs in the place of pinned ones


@pytest.fixture
def pinning(cloud):
    return cloud(HOSTS, [child(HOSTS[1], 'cpus', PCPU=4)])


@cases(
    'failing, host',
    ('the second fails', 'VCPU', 'h2'),
    ('the first fails', 'PCPU', 'h1'),
)
def test_one_of_two_queries_is_enough(pinning, failing, host):
    pinning.proxy.on('GET', f'{QUERY}.*C{failing}', PAGE, times=9)
    pinning.proxy.on('GET', f'{QUERY}.*[^A-Z]{failing}', PAGE, times=9)
    assert ask(pinning, extra_specs=PINNED) == [[host]]


def test_two_failing_queries_are_no_valid_host(pinning):
    pinning.proxy.on('GET', QUERY, PAGE, times=9)
    with pytest.raises(errors.NoValidHost):
        ask(pinning, extra_specs=PINNED)


# -- placement is away, or somebody else answers


def test_placement_may_be_away_for_a_moment(made):
    scheduler = made.compose()
    for fault in (proxy.drop, proxy.cut, PAGE):
        made.proxy.on('GET', QUERY, fault)
        assert made.ask(scheduler, new_uuids()) == [['h1']]


def test_a_slow_placement_is_waited_for(made):
    made.proxy.on('GET', QUERY, proxy.delay(0.5))
    assert ask(made) == [['h1']]
    assert len(queries(made)) == 1


def test_whatever_placement_does_is_no_valid_host(made):
    scheduler = made.compose()
    for fault in (
        proxy.drop,
        proxy.cut,
        PAGE,
        proxy.answers(200, b'<html>', 'text/html'),
        proxy.answers(200, b'[]'),
        proxy.answers(400, b'{}'),
        proxy.answers(401, b'no'),
        proxy.late,
    ):
        made.adapter.session.timeout = 0.2 if fault is proxy.late else PATIENT_S
        made.proxy.heal()
        made.proxy.on('GET', QUERY, fault, times=99)
        with pytest.raises(errors.NoValidHost) as raised:
            made.ask(scheduler, new_uuids())
        assert str(raised.value) == 'No valid host was found. '


def test_every_failure_is_logged(made, caplog):
    scheduler = made.compose()
    made.proxy.on('GET', QUERY, proxy.drop, times=99)
    for _ in range(3):
        with pytest.raises(errors.NoValidHost):
            made.ask(scheduler, new_uuids())
    said = [record.getMessage() for record in caplog.records]
    assert said.count('Placement API service is not responding.') >= 3


def test_the_log_tells_a_bad_query_from_a_dead_placement_and_a_full_cloud(made, caplog):
    def said(**values):
        caplog.clear()
        with caplog.at_level('INFO'), contextlib.suppress(errors.NoValidHost):
            ask(made, **values)
        return {
            (record.levelname, record.getMessage().partition('\n')[0].split(':')[0])
            for record in caplog.records
            if record.name.startswith('novasched.placement')
        }

    full = said(vcpus=99)
    bad = said(extra_specs={'trait:CUSTOM_UNHEARD_OF': 'required'})
    made.proxy.on('GET', QUERY, proxy.drop, times=99)
    dead = said()
    assert full == set()
    assert {level for level, _ in bad} == {'ERROR'}
    assert ('WARNING', 'Placement API service is not responding.') in dead


UNHEARD_OF = {'extra_specs': {'trait:CUSTOM_UNHEARD_OF': 'required'}}


@cases(
    'level, request_, fault, said',
    ('as nova', 'none', {}, None, 'There are not enough hosts available.'),
    (
        'filters, for users',
        'user',
        {},
        None,
        '0 of 2 hosts: service-disabled 1, service-down 1.',
    ),
    (
        'filters, for admins',
        'admin',
        {},
        None,
        '0 of 2 hosts: service-disabled 1 (h1), service-down 1 (h2).',
    ),
    (
        'a full cloud',
        'user',
        {'vcpus': 99},
        None,
        'Placement has no host with what is asked for.',
    ),
    (
        'a trait that nobody knows',
        'user',
        UNHEARD_OF,
        None,
        'Placement does not know the trait that is asked for.',
    ),
    ('a dead placement', 'user', {}, proxy.drop, 'Placement did not answer.'),
)
def test_error_text_has_reasons_if_configured(cloud, level, request_, fault, said):
    hosts = [Host('h1', disabled=True), Host('h2', down=True)]
    made = cloud(hosts, novasched={'no_valid_host_detail': level})
    if fault:
        made.proxy.on('GET', QUERY, fault, times=99)
    with pytest.raises(errors.NoValidHost) as raised:
        ask(made, **request_)
    text, decision = re.fullmatch(r'(.*?)( \(d-\w{13}\))?', str(raised.value)).groups()
    assert text == f'No valid host was found. {said}'
    assert bool(decision) == (level != 'none')
    assert ('h1' in text or 'h2' in text) == (level == 'admin')


# -- requests that are not as nova expects them


def test_a_request_without_an_image_is_served(cloud):
    options = {
        'query_placement_for_image_type_support': True,
        'image_metadata_prefilter': True,
    }
    scheduler = cloud(HOSTS, scheduler=options).compose()
    for image, unset in (
        (None, ()),
        ({}, ('is_bfv',)),
        (None, ('is_bfv', 'image')),
    ):
        given = factories.request(is_bfv=False, image=image)
        fields = {
            name: getattr(given, name)
            for name in given.fields
            if name in given and name not in unset
        }
        found = scheduler.manager.select_destinations(
            RequestContext(overwrite=False),
            type(given)(**fields),
            new_uuids(),
            True,
            False,
        )
        assert [[one.service_host for one in each] for each in found] == [['h1']]


def test_a_host_is_found_for_a_request_of_suffixed_groups_only(made):
    groups = {
        'resources1:VCPU': '1',
        'resources1:MEMORY_MB': '512',
        'resources1:DISK_GB': '1',
    }
    assert ask(made, extra_specs=groups, force_hosts=['h2']) == [['h2']]


# -- zones


ZONES = [Host('h1', zone='az1'), Host('h2', zone='az2')]


def test_an_unknown_zone_restricts_nothing_but_by_its_filter(cloud):
    made = cloud(ZONES)
    assert ask(made, availability_zone='nowhere') in ([['h1']], [['h2']])


def test_the_filter_of_zones_knows_that_there_is_no_such_zone(cloud):
    filters = ['ComputeFilter', 'AvailabilityZoneFilter']
    made = cloud(ZONES, filter_scheduler={'enabled_filters': filters})
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        ask(made, availability_zone='nowhere')
    assert ask(made, availability_zone='az2') == [['h2']]


def test_aggregate_unknown_to_placement_is_logged(cloud, caplog):
    made = cloud(ZONES)
    scheduler = made.compose()

    def looks(zone):
        caplog.clear()
        made.proxy.forget()
        with contextlib.suppress(errors.NoValidHost):
            made.ask(scheduler, new_uuids(), availability_zone=zone)
        asked = made.proxy.asked('GET', '^/resource_providers/.*/aggregates')
        return len(asked), [text for text in caplog.messages if 'sync_agg' in text]

    assert looks('az1') == (0, [])
    made.change('h2', 'aggregates', [])
    asked, said = looks('az2')
    assert asked == 1
    assert [text.partition(',')[0] for text in said] == [
        'Placement does not know that host h2 is in aggregate az2 '
        f'({named_uuid("az2")})'
    ]
    assert looks('az2') == (0, [])

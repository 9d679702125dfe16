# SPDX-License-Identifier: Apache-2.0
"""Trees, shared storage and limits of the real placement, up to the claim."""

import json

import pytest
import requests

from novasched import errors
from novasched.placement.client import Summaries
from novasched_lab.resource_providers import Inventory, Provider, provide
from tests.functional.conftest import Host, named_uuid, new_uuids
from tests.support.tables.cases import cases

SHARING = frozenset({'MISC_SHARES_VIA_AGGREGATE'})
ONE_GPU = {'resources:VGPU': '1'}
GPU_ONLY = {'resources:VCPU': '0', 'resources:MEMORY_MB': '0', **ONE_GPU}


def add_gpus(made, host, *names, units=1):
    """Give a host a child provider per name."""
    children = [
        Provider(
            named_uuid(f'{host} {name}'),
            f'{host}_{name}',
            {'VGPU': Inventory(units)},
            traits=frozenset(),
            parent=made.hosts[host].uuid,
        )
        for name in names
    ]
    provide(made.adapter, children)
    return [child.uuid for child in children]


def composed(made):
    """Compose a scheduler, and count the requests to placement from now on."""
    made.faults.seen.clear()
    return made.compose()


def taken_before(made, method, consumer, pick=lambda asked: asked):
    """Let somebody else have what the next request asks for, and then ask."""

    def meanwhile(request, send):
        body = pick(json.loads(request.body))
        made.placement.put(f'/allocations/{consumer}', body)
        return send()

    made.faults.on(method, 1, meanwhile)


class TestTrees:
    @pytest.mark.parametrize('shares', [True, False])
    def test_so_is_one_whose_storage_is_shared(self, cloud, shares):
        made = cloud([Host('h1', zone='z', disk_gb=2), Host('h2')])
        (child,) = add_gpus(made, 'h1', 'gpu')
        pool = Provider(
            named_uuid('pool'),
            'pool',
            {'DISK_GB': Inventory(1000)},
            traits=SHARING if shares else frozenset(),
            aggregates=frozenset([named_uuid('z')]),
        )
        provide(made.adapter, [pool])
        (uuid,) = new_uuids()

        def ask():
            return made.ask(composed(made), [uuid], extra_specs=GPU_ONLY, root_gb=20)

        if not shares:
            with pytest.raises(errors.NoValidHost):
                ask()
            return
        assert ask() == [['h1']]
        assert made.placement.allocations(uuid) == {
            child: {'VGPU': 1},
            pool.uuid: {'DISK_GB': 20},
        }

    def test_one_child_too_few_claims_nothing_and_asks_nothing(self, cloud):
        made = cloud([Host('h1')])
        add_gpus(made, 'h1', 'a', 'b')
        with pytest.raises(errors.NoValidHost, match='not enough hosts'):
            made.ask(composed(made), new_uuids(3), extra_specs=ONE_GPU)
        assert made.held() == {}
        assert (made.faults.seen['POST'], made.faults.seen['PUT']) == (0, 0)


class TestFullCloud:
    def test_shared_storage_that_is_used_up_is_asked_once(self, cloud):
        hosts = [Host(f'h{n}', zone='z') for n in range(6)]
        made = cloud(hosts)
        for host in hosts:
            url = f'/resource_providers/{host.uuid}/inventories/DISK_GB'
            made.placement.request('DELETE', url)
        pool = Provider(
            named_uuid('pool'),
            'pool',
            {'DISK_GB': Inventory(10)},
            traits=SHARING,
            aggregates=frozenset([named_uuid('z')]),
        )
        provide(made.adapter, [pool])
        scheduler = composed(made)
        (other,) = new_uuids()
        taken_before(made, 'PUT', other)
        with pytest.raises(errors.NoValidHost, match='not enough hosts'):
            made.ask(scheduler, new_uuids(), root_gb=6)
        assert made.faults.seen['PUT'] == 2

    def test_six_that_fit_are_claimed_by_one_request(self, cloud):
        made = cloud([Host(f'h{n}', vcpus=4) for n in range(3)])
        uuids = new_uuids(6)
        found = made.ask(composed(made), uuids, vcpus=2)
        assert sorted(host for (host,) in found) == ['h0', 'h0', 'h1', 'h1', 'h2', 'h2']
        assert set(made.held()) == set(uuids)
        assert (made.faults.seen['POST'], made.faults.seen['PUT']) == (1, 0)

    def test_others_who_claim_meanwhile_make_it_one_by_one(self, cloud):
        made = cloud([Host(f'h{n}', vcpus=4) for n in range(3)])
        scheduler, uuids, (other,) = composed(made), new_uuids(4), new_uuids()
        taken_before(made, 'POST', other, lambda asked: next(iter(asked.values())))
        made.ask(scheduler, uuids, vcpus=4 - 2)
        held = made.held()
        assert set(held) == {*uuids, other}
        for host in made.hosts.values():
            assert made.placement.of(host.uuid, 'usages')['VCPU'] <= 4


@cases(
    'count, asked',
    ('one server', 1, ['PUT', 'PUT']),
    more=[('two servers', 2, ['POST', 'POST'])],
)
def test_a_placement_that_cannot_be_reached_is_not_tried_for_each_host(
    cloud, count, asked
):
    made = cloud([Host(f'h{number}') for number in range(9)])
    tried = []

    def unreachable(request, send):
        tried.append(request.method)
        raise requests.ConnectTimeout('timed out')

    for nth in range(1, 11):
        for method in ('PUT', 'POST'):
            made.faults.on(method, nth, unreachable)
    with pytest.raises(errors.NoValidHost, match='not enough hosts'):
        made.ask(made.compose(), new_uuids(count))
    assert tried == asked


def test_the_summaries_of_placement_are_left_alone_until_they_are_needed(cloud):
    made = cloud([Host('h1')])
    scheduler = composed(made)
    seen = []
    attempts = scheduler.manager.attempts
    attempts.driver = _Watching(attempts.driver, seen)
    made.ask(scheduler, new_uuids())
    (summaries,) = seen
    assert isinstance(summaries, Summaries)
    assert '_parsed' not in vars(summaries)
    assert list(summaries) == [made.hosts['h1'].uuid]


class _Watching:
    """Keeps the summaries that a driver is given."""

    def __init__(self, driver, seen):
        self._driver = driver
        self._seen = seen

    def __getattr__(self, name):
        return getattr(self._driver, name)

    def select_destinations(self, request):
        self._seen.append(request.candidates.summaries)
        return self._driver.select_destinations(request)

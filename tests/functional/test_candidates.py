# SPDX-License-Identifier: Apache-2.0
"""Trees, shared storage and limits of the real placement, up to the claim."""

import json

import pytest
import requests

from novasched import errors
from novasched.placement.candidates import Summaries
from novasched_lab.resource_providers import Inventory, Provider, provide
from tests.functional.conftest import Host, named_uuid, new_uuids

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


def held_from(made, consumer):
    """The amounts that a consumer holds, by provider."""
    answer = made.adapter.get(f'/allocations/{consumer}', microversion='1.36').json()
    held = answer['allocations']
    return {provider: each['resources'] for provider, each in held.items()}


def consumers(made, provider):
    url = f'/resource_providers/{provider}/allocations'
    return set(made.adapter.get(url, microversion='1.36').json()['allocations'])


def taken_before(made, method, consumer, pick=lambda asked: asked):
    """Let somebody else have what the next request asks for, and then ask."""

    def meanwhile(request, send):
        body = pick(json.loads(request.body))
        made.adapter.put(f'/allocations/{consumer}', microversion='1.36', json=body)
        return send()

    made.faults.on(method, 1, meanwhile)


class TestTrees:
    def test_a_host_that_gives_only_what_its_children_have_is_found(self, cloud):
        made = cloud([Host('h1'), Host('h2')])
        (child,) = add_gpus(made, 'h2', 'gpu')
        (uuid,) = new_uuids()
        found = made.ask(composed(made), [uuid], extra_specs=GPU_ONLY, root_gb=0)
        assert found == [['h2']]
        assert held_from(made, uuid) == {child: {'VGPU': 1}}

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
        assert held_from(made, uuid) == {child: {'VGPU': 1}, pool.uuid: {'DISK_GB': 20}}

    def test_two_instances_take_two_children_of_the_only_host(self, cloud):
        made = cloud([Host('h1')])
        children = add_gpus(made, 'h1', 'a', 'b')
        uuids = new_uuids(2)
        found = made.ask(composed(made), uuids, extra_specs=ONE_GPU)
        assert found == [['h1'], ['h1']]
        assert sorted(map(len, map(held_from, [made] * 2, uuids))) == [2, 2]
        taken = [consumers(made, child) for child in children]
        assert set.union(*taken) == set(uuids)
        assert [len(each) for each in taken] == [1, 1]
        assert made.faults.seen['POST'] == 1
        assert made.faults.seen['PUT'] == 0

    def test_one_child_too_few_claims_nothing_and_asks_nothing(self, cloud):
        made = cloud([Host('h1')])
        add_gpus(made, 'h1', 'a', 'b')
        with pytest.raises(errors.NoValidHost, match='not enough hosts'):
            made.ask(composed(made), new_uuids(3), extra_specs=ONE_GPU)
        assert made.held() == {}
        assert (made.faults.seen['POST'], made.faults.seen['PUT']) == (0, 0)

    def test_a_child_that_is_taken_meanwhile_is_no_loss(self, cloud):
        made = cloud([Host('h1')])
        add_gpus(made, 'h1', 'a', 'b')
        scheduler = composed(made)
        (uuid, other) = new_uuids(2)
        taken_before(made, 'PUT', other)
        assert made.ask(scheduler, [uuid], extra_specs=ONE_GPU) == [['h1']]
        assert set(held_from(made, uuid)) != set(held_from(made, other))
        assert made.faults.seen['PUT'] == 3


class TestFullCloud:
    def test_shared_storage_that_is_used_up_is_asked_once(self, cloud):
        hosts = [Host(f'h{n}', zone='z') for n in range(6)]
        made = cloud(hosts)
        for host in hosts:
            url = f'/resource_providers/{host.uuid}/inventories/DISK_GB'
            made.adapter.delete(url, microversion='1.36')
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
            url = f'/resource_providers/{host.uuid}/usages'
            usages = made.adapter.get(url, microversion='1.36').json()['usages']
            assert usages['VCPU'] <= 4

    @pytest.mark.parametrize('lost', ['the request', 'the answer'])
    def test_a_joint_claim_without_answer_is_found_or_sent_again(self, cloud, lost):
        made = cloud([Host('h1')])
        scheduler, uuids = composed(made), new_uuids(3)

        def spoil(request, send):
            if lost == 'the answer':
                send().close()
            raise requests.ReadTimeout('timed out')

        made.faults.on('POST', 1, spoil)
        assert made.ask(scheduler, uuids) == [['h1']] * 3
        assert set(made.held()) == set(uuids)
        assert made.faults.seen['POST'] == (1 if lost == 'the answer' else 2)


class TestLimit:
    HOSTS = tuple(Host(f'h{n:02}') for n in range(12))

    @pytest.fixture
    def made(self, cloud):
        return cloud(self.HOSTS, scheduler={'max_placement_results': 3})

    @pytest.fixture
    def unfit(self, made):
        """The three hosts that placement names under the limit."""
        made.ask(composed(made), None)
        (decision,) = made.decisions
        made.decisions.clear()
        made.notifications.clear()
        return decision.hosts.host.tolist()

    def test_hosts_behind_the_limit_are_found(self, made, unfit, caplog):
        (uuid,) = new_uuids()
        with caplog.at_level('INFO'):
            ((found,),) = made.ask(composed(made), [uuid], ignore_hosts=unfit)
        assert found not in unfit
        assert made.held() == {uuid: {found}}
        marks = [(len(d.hosts), d.cut, d.further) for d in made.decisions]
        assert marks == [(3, True, False), (12, False, True)]
        assert any('retrying without the limit' in line for line in caplog.messages)
        assert [phase for phase, _ in made.notifications] == ['start', 'end']


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

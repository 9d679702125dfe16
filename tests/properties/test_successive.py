# SPDX-License-Identifier: Apache-2.0
"""The next decision, made from the last one, is the one that decide() makes."""

import random

from hypothesis import given
from hypothesis import strategies as st

from novasched import errors
from novasched.drivers import DriverContext, filter_scheduler
from novasched.drivers.filter_scheduler import FilterScheduler
from novasched.scheduler.filters.affinity import (
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
)
from novasched.scheduler.filters.host_limit import (
    AggregateNumInstancesFilter,
    IoOpsFilter,
)
from novasched.scheduler.filters.legacy.overcommit import RamFilter
from novasched.scheduler.filters.numa_topology import NUMATopologyFilter
from novasched.scheduler.filters.pci_passthrough import PciPassthroughFilter
from novasched.scheduler.fit.claim import book
from novasched.scheduler.flavor_sizes import FlavorSize
from novasched.scheduler.hosts import consume
from novasched.scheduler.pipeline import Profile, decide
from novasched.scheduler.successive import decide_next
from novasched.scheduler.weighers.keep_room import KeepRoomWeigher
from novasched.scheduler.weighers.resources import (
    BuildFailureWeigher,
    CPUWeigher,
    RAMWeigher,
    SameHostWeigher,
)
from novasched.scheduler.weighers.shares import (
    CPUShareWeigher,
    DiskShareWeigher,
    RAMShareWeigher,
)
from tests.properties.installed import FILTERS, WEIGHERS
from tests.properties.strategies import host_tables, naming_requests, requests
from tests.support.clouds import factories
from tests.support.clouds.driving import drive
from tests.support.clouds.fakes import (
    DecisionsSeen,
    FakePlacement,
    FakeView,
)
from tests.support.tables.examples import examples

UUIDS = [f'b0000000-0000-4000-8000-{number:012}' for number in range(12)]
AFFINITY = (ServerGroupAntiAffinityFilter(), ServerGroupAffinityFilter())
LIMITS = (IoOpsFilter(9), AggregateNumInstancesFilter(30))
FITTING = (NUMATopologyFilter(), PciPassthroughFilter())
PACKING = (RAMWeigher(-1.0), CPUWeigher())
SHARES = (CPUShareWeigher(1.0), DiskShareWeigher(2.0), RAMShareWeigher(-1.0))
MORE = (BuildFailureWeigher(1.0, forgets=True), SameHostWeigher(3.0), *SHARES)
ROOM = (KeepRoomWeigher(10.0, [FlavorSize(2, 512), FlavorSize(1, 64)]), *PACKING)

profiles = st.builds(
    Profile,
    filters=st.sampled_from(
        [(), AFFINITY, LIMITS, FITTING, AFFINITY + LIMITS + FITTING, tuple(FILTERS)]
    ),
    weighers=st.sampled_from([tuple(WEIGHERS), PACKING, MORE, ROOM, ()]),
    host_subset_size=st.integers(1, 4),
    shuffle_best=st.booleans(),
)
seeds = st.integers(0, 2**32)


def shown(decision):
    """Return what a decision tells, as text: NaN is NaN."""
    weighed = decision.weighed
    return repr(
        (
            decision.notes,
            decision.filters_ran,
            [(str(s), s.stopped, s.after.rows.tolist()) for s in decision.steps],
            decision.hosts.rows.tolist(),
            weighed.hosts.rows.tolist(),
            weighed.totals.tolist(),
            [
                (
                    one.name,
                    one.raw.tolist(),
                    one.normalized.tolist(),
                    one.multipliers.tolist(),
                    one.missing,
                )
                for one in weighed.weighings
            ],
            decision.ranked.rows.tolist(),
            decision.totals.tolist(),
            [
                (host.limits, host.allocation_candidates)
                for host in decision.ranked.states()
            ],
            decision.plugin_warnings,
        )
    )


@given(profiles, host_tables, requests | naming_requests, seeds)
@examples(80)
def test_the_next_decision_is_the_same(profile, hosts, request, seed):
    rng, other = random.Random(seed), random.Random(seed)
    last, row = None, 0
    for index, uuid in enumerate(UUIDS[:5]):
        request = request.for_instance(uuid)
        try:
            expected = decide(profile, hosts, request, other, index)
        except errors.NovaschedError:
            return
        if last is None:
            found = decide(profile, hosts, request, rng, index)
        else:
            found = decide_next(profile, last, hosts, row, request, rng, index)
        assert shown(found) == shown(expected)
        assert rng.getstate() == other.getstate()
        if not len(found.ranked):
            return
        last, row = found, found.ranked.state(0)._row
        hosts = book(
            consume(found.ranked, row, request), row, request, profile.fitting
        ).hosts
        request = request.with_group_on(found.ranked.state(0).host)


host = st.fixed_dictionaries(
    {
        'free_ram_mb': st.integers(1, 4).map(lambda n: 2048 * n),
        'vcpus_used': st.integers(0, 3),
        'num_io_ops': st.integers(0, 8),
        'cell_uuid': st.sampled_from(['one', 'two']),
        'numa_topology': st.sampled_from(
            [factories.numa_topology(factories.numa_cell(0, range(n))) for n in (2, 6)]
        ),
    }
)


@st.composite
def clouds(draw):
    """Return hosts, and what a placement offers of them that refuses some claims."""
    many = draw(st.lists(host, min_size=1, max_size=8))
    hosts = factories.hosts(**{name: [one[name] for one in many] for name in many[0]})
    offered = FakePlacement(*hosts.uuid.tolist())
    for uuid in hosts.uuid.tolist():
        free = draw(st.integers(1, 4))
        offered.summaries[uuid] = {'resources': {'VCPU': {'capacity': free, 'used': 0}}}
        for number in range(draw(st.integers(0, 2))):
            resources = {'resources': {'VCPU': 1, 'CUSTOM': number + 1}}
            offered.offered.append({'allocations': {uuid: resources}, 'mappings': {}})
    script = ['claimed', 'refused', 'conflicted']
    offered.script = draw(st.just([]) | st.lists(st.sampled_from(script), max_size=8))
    return hosts, offered


driver_profiles = st.builds(
    Profile,
    filters=st.sampled_from([(), AFFINITY, LIMITS, FITTING, (RamFilter(), *LIMITS)]),
    weighers=st.sampled_from([tuple(WEIGHERS), PACKING]),
    host_subset_size=st.integers(1, 3),
    shuffle_best=st.booleans(),
)
asked = st.builds(
    factories.request,
    memory_mb=st.sampled_from([512, 2048]),
    instance_group=st.none()
    | st.sampled_from(['affinity', 'anti-affinity', 'soft-anti-affinity']).map(
        lambda policy: factories.group(policy, members=UUIDS)
    ),
    numa_topology=st.none()
    | st.just(factories.guest_topology(factories.guest_cell(policy='dedicated'))),
)


def placed(decides, profile, cloud, request, uuids, seed):
    """Return what becomes of a request, and all that is seen of its decisions."""
    hosts, offered = cloud
    seen, offered.held, script = [], {}, list(offered.script)
    parts = DriverContext(
        profile=profile,
        view=FakeView(hosts),
        placement=offered,
        rng=random.Random(seed),
    )
    given = filter_scheduler.decide_next
    filter_scheduler.decide_next = decides
    try:
        result = drive(
            FilterScheduler(parts),
            offered,
            uuids,
            request,
            True,
            recorder=DecisionsSeen(lambda one: seen.append(shown(one))),
        )
        answer = [[one.obj_to_primitive() for one in s] for s in result.selections]
    except errors.NoValidHost as problem:
        answer = str(problem)
    finally:
        filter_scheduler.decide_next = given
        offered.script = script
    return answer, seen, offered.held


def whole(profile, last, hosts, row, *rest):
    """Decide as if there were no last decision."""
    return decide(profile, hosts, *rest)


@given(driver_profiles, clouds(), asked, st.integers(2, len(UUIDS)), seeds)
@examples(60)
def test_a_request_is_placed_as_by_whole_decisions(
    profile, cloud, request, number, seed
):
    given = profile, cloud, request, UUIDS[:number], seed
    assert placed(decide_next, *given) == placed(whole, *given)

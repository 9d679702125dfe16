# SPDX-License-Identifier: Apache-2.0
"""Dedicated clouds, local disks and virtual GPUs: filters of our own."""

from novasched.scheduler.filters.legacy.own import (
    DedicatedCloudFilter,
    LocalDiskFilter,
    VGPUFilter,
)
from novasched.scheduler.reasons import Code
from tests.support.clouds import factories
from tests.support.tables.cases import cases
from tests.support.tables.verdicts import assert_verdict

CLOUD = DedicatedCloudFilter()


def pools(*of_aggregates):
    aggregates = tuple(
        factories.aggregate(
            number,
            dedicated_cloud_id=names,
            **({'dedicated_cloud_project_id': projects} if projects else {}),
        )
        for number, (names, projects) in enumerate(of_aggregates)
    )
    return factories.hosts(aggregates=[aggregates])


def asks_pool(hint=None, spec=None):
    return factories.request(
        project_id='p1',
        scheduler_hints={} if hint is None else {'dedicated_cloud_id': hint},
        extra_specs={} if spec is None else {'dedicated_cloud:id': spec},
    )


@cases(
    'hosts, request_, passes',
    ('no pool is asked', pools(), asks_pool(), True),
    ('kept for others', pools(('a', None)), asks_pool(), False),
    ('a pool without a name', pools(('', None)), asks_pool(), True),
    ('the hint', pools(('a', None)), asks_pool(['a']), True),
    ('the flavor', pools(('a', None)), asks_pool(spec='a'), True),
    ('the hint wins', pools(('a', None)), asks_pool(['b'], 'a'), False),
    ('an empty hint', pools(('a', None)), asks_pool([], 'a'), True),
    ('a hint of no text', pools(('a', None)), asks_pool([''], 'a'), True),
    ('two hints', pools(('a', None)), asks_pool(['a', 'b']), False),
    ('of another project', pools(('a', 'p2')), asks_pool(['a']), False),
    ('of the project', pools(('a', 'p2, p1')), asks_pool(['a']), True),
    ('another pool', pools(('a', None)), asks_pool(['b']), False),
    ('one of two pools', pools(('a, b', None)), asks_pool(['b']), True),
    (
        'the project is of the other pool',
        pools(('a', 'p2'), ('b', 'p1')),
        asks_pool(['a']),
        False,
    ),
    ('one aggregate will do', pools(('a', 'p2'), ('a', 'p1')), asks_pool(['a']), True),
    ('in no pool', pools(), asks_pool(['a']), False),
)
def test_dedicated_cloud(hosts, request_, passes):
    assert_verdict(CLOUD, hosts, request_, passes)


@cases('hosts, request_, code, text',
    ('no pool is asked', pools(('a', None), ('b', None)), asks_pool(), Code.WRONG_POOL,
     'in pool a, b, not None'),
    ('in none', pools(), asks_pool(['a']), Code.WRONG_POOL, 'in pool None, not a'),
    ('of another project', pools(('a', 'p2')), asks_pool(['a']),
     Code.PROJECT_NOT_ALLOWED, 'pool a is not for project p1'),
)  # fmt: skip
def test_why_of_clouds(hosts, request_, code, text):
    assert CLOUD.why(hosts.state(0), request_) == (code, text)


def test_clouds_are_looked_at_once_per_request():
    assert not CLOUD.run_filter_for_index(1)


DISK = LocalDiskFilter()
GIB = 1024


def disks(free_gb=200, *of_aggregates):
    aggregates = tuple(
        factories.aggregate(number, **metadata)
        for number, metadata in enumerate(of_aggregates)
    )
    return factories.hosts(free_disk_mb=[free_gb * GIB], aggregates=[aggregates])


def asks_disk(size=None, type_=None, **flavor):
    specs = {'local_disk:size_gb': size, 'local_disk:type': type_}
    given = {name: value for name, value in specs.items() if value is not None}
    return factories.request(extra_specs=given, **flavor)


LOCAL = {'local_disk': 'true'}
NVME = {'local_disk_type': 'ssd, nvme'}


@cases(
    'hosts, request_, passes',
    ('nothing is asked', disks(), asks_disk(), True),
    ('enough', disks(200, LOCAL), asks_disk('100', root_gb=20), True),
    ('too little', disks(100, LOCAL), asks_disk('100', root_gb=20), False),
    ('just enough', disks(120, LOCAL), asks_disk('100', root_gb=20), True),
    ('swap counts', disks(120, LOCAL), asks_disk('100', root_gb=20, swap=1), False),
    (
        'ephemeral disks count',
        disks(120, LOCAL),
        asks_disk('100', root_gb=19, ephemeral_gb=2),
        False,
    ),
    ('no local disks', disks(200), asks_disk('1'), False),
    ('none is enough, but of these', disks(200), asks_disk('0'), False),
    ('not said to be', disks(200, {'local_disk': 'false'}), asks_disk('1'), False),
    ('the type', disks(200, NVME), asks_disk(type_='nvme'), True),
    ('no type', disks(200), asks_disk(type_='nvme'), False),
    ('another type', disks(200, NVME), asks_disk(type_='hdd'), False),
    ('case counts', disks(200, NVME), asks_disk(type_='NVMe'), False),
    ('of two aggregates', disks(200, NVME, LOCAL), asks_disk('9', 'ssd'), True),
    ('a size of no number', disks(200, LOCAL), asks_disk('big'), False),
    ('an empty size', disks(200, LOCAL), asks_disk(''), False),
    ('a negative size', disks(200, LOCAL), asks_disk('-1'), False),
    ('a huge size', disks(200, LOCAL), asks_disk('9' * 30), False),
    ('no such number', disks(200, LOCAL), asks_disk('9' * 9999), False),
)
def test_local_disk(hosts, request_, passes):
    assert_verdict(DISK, hosts, request_, passes)


@cases('hosts, request_, code, text',
    ('a size of no number', disks(), asks_disk('big'), Code.EXTRA_SPEC_INVALID,
     "local_disk:size_gb is 'big', not a number of GiB"),
    ('another type', disks(200, NVME), asks_disk(type_='hdd'), Code.LOCAL_DISK_DIFFERS,
     'local disks are of type nvme, ssd, not hdd'),
    ('no local disks', disks(200, NVME), asks_disk('1', 'ssd'), Code.LOCAL_DISK_MISSING,
     'no aggregate says local_disk=true'),
    ('too little', disks(1, LOCAL), asks_disk('1'), Code.NOT_ENOUGH_DISK,
     '2048 MB of local disk asked, 1024 MB free'),
)  # fmt: skip
def test_why_of_local_disks(hosts, request_, code, text):
    assert DISK.why(hosts.state(0), request_) == (code, text)


VGPU = VGPUFilter()


def candidate(*amounts):
    """A candidate with a provider of CPUs, and one for each number of GPUs."""
    allocations = {'root': {'resources': {'VCPU': 1}}, 'none': {}}
    for number, amount in enumerate(amounts):
        allocations[f'gpu{number}'] = {'resources': {'VGPU': amount}}
    return {'allocations': allocations, 'mappings': {}}


def gpu_request(**specs):
    given = {key.replace('__', ':'): value for key, value in specs.items()}
    return factories.request(extra_specs=given)


def left(hosts, request_):
    """The candidates of each host that passes, at table and at host grain."""
    passed = VGPU.apply(hosts, request_)
    states = [h for h in hosts.states() if VGPU.host_passes(h, request_)]
    assert [h.allocation_candidates for h in states] == (
        passed.allocation_candidates.tolist()
    )
    return passed.allocation_candidates.tolist()


NONE, ONE, TWO, THREE = candidate(), candidate(1), candidate(1, 1), candidate(3)
GPU = {'resources__VGPU': '1'}
GROUPS = {'resources1__VGPU': '1', 'resources_GPU__VGPU': '1'}
NO_NUMBERS = {'resources__VGPU': 'x', 'resources2__VGPU': '-1'}
OTHERS = {'resources__VGPUX': '1', 'trait__VGPU': '1'}


@cases(
    'specs, candidates, expected',
    ('a plain flavor', {}, [NONE], [[NONE]]),
    ('has one', GPU, [ONE], [[ONE]]),
    ('has none', GPU, [NONE], []),
    (
        'of all providers',
        {'resources__VGPU': '2'},
        [ONE, TWO, NONE, THREE],
        [[TWO, THREE]],
    ),
    ('of all groups', GROUPS, [ONE], []),
    ('placement was not asked', GPU, [], [[]]),
    ('none is asked', {'resources__VGPU': '0'}, [NONE], [[NONE]]),
    ('amounts that do not count', NO_NUMBERS, [NONE], [[NONE]]),
    ('other extra specs', OTHERS, [NONE], [[NONE]]),
)
def test_candidates_with_gpus(specs, candidates, expected):
    hosts = factories.hosts(allocation_candidates=[candidates])
    assert left(hosts, gpu_request(**specs)) == expected
    assert hosts.allocation_candidates.tolist() == [candidates]


def test_each_host_keeps_its_own_candidates():
    lists = [[candidate(1)], [candidate()], [candidate(), candidate(2)], []]
    hosts = factories.hosts(allocation_candidates=lists)
    expected = [[candidate(1)], [candidate(2)], []]
    assert left(hosts[[3, 2, 1, 0]], gpu_request(resources__VGPU='1')) == expected[::-1]


@cases(
    'wanted, of_aggregate, reported, passes',
    ('of an aggregate', 'v35', 'v35,v36', None, True),
    ('not declared', 'v35', None, None, False),
    ('another', 'v37', 'v35,v36', None, False),
    ('any of two', 'v37, v36', 'v35,v36', None, True),
    ('reported as JSON', 'v35', None, '["v35", "v36"]', True),
    ('reported with commas', 'v35', None, 'v34, v35', True),
    ('reported as nonsense', 'v35', None, '{"v35": 1}', False),
    ('reported a number', 'v35', None, '[35, "v36"]', False),
    ('a type that looks like a number', '35', None, '35', True),
    ('reported without an end', 'v35', None, '[' * 99999, False),
    ('either of both', 'v35', 'v1', 'v35', True),
    ('an empty type', '', 'v1', 'v1', False),
    ('none is asked', None, None, None, True),
)
def test_types_of_gpus(wanted, of_aggregate, reported, passes):
    aggregates = ()
    if of_aggregate is not None:
        aggregates = (factories.aggregate(1, vgpu_types=of_aggregate),)
    stats = {} if reported is None else {'vgpu_types': reported}
    hosts = factories.hosts(aggregates=[aggregates], stats=[stats])
    specs = {} if wanted is None else {'vgpu__type': wanted}
    assert bool(left(hosts, gpu_request(**specs))) is passes


def test_gpus_and_their_type_must_hold():
    aggregates = [(factories.aggregate(1, vgpu_types='v1'),), ()]
    lists = [[candidate()], [candidate(1)]]
    hosts = factories.hosts(aggregates=aggregates, allocation_candidates=lists)
    assert left(hosts, gpu_request(vgpu__type='v1', resources__VGPU='1')) == []


@cases(
    'columns, code, text',
    (
        'another type',
        {'stats': [{'vgpu_types': 'v3, v2'}]},
        Code.VGPU_DIFFERS,
        'virtual GPUs are v2, v3, not v1,v9',
    ),
    (
        'not declared',
        {},
        Code.VGPU_DIFFERS,
        'virtual GPUs are of no known type, not v1,v9',
    ),
    (
        'too few',
        {
            'stats': [{'vgpu_types': 'v9'}],
            'allocation_candidates': [[candidate(), candidate(1)]],
        },
        Code.VGPU_MISSING,
        '2 virtual GPUs asked, candidates have 1',
    ),
)
def test_why_of_gpus(columns, code, text):
    host = factories.hosts(**columns or {'count': 1}).state(0)
    reason = VGPU.why(host, gpu_request(vgpu__type='v1,v9', resources__VGPU='2'))
    assert reason == (code, text)

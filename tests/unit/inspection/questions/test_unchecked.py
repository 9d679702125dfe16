# SPDX-License-Identifier: Apache-2.0
"""Demands that no enabled filter checks, and those that one does."""

import dataclasses
import functools
import importlib.metadata
import json
import pathlib

import netaddr

from novasched import plugins
from novasched.decisions.record_builder import profile_summary
from novasched.decisions.request import summary
from novasched.inspection.questions import unchecked
from novasched.inspection.questions.unchecked import EnabledChecks
from novasched.inspection.session.guest_topology import numa_topology_of
from novasched.objects.base import parse
from novasched.testing import assert_rejects
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

DEFAULT = [
    'ComputeFilter',
    'ComputeCapabilitiesFilter',
    'ImagePropertiesFilter',
    'ServerGroupAntiAffinityFilter',
    'ServerGroupAffinityFilter',
]
SAMPLES = pathlib.Path(__file__).parents[3] / 'samples' / 'rpc'
OTHER = '50000000-0000-4000-8000-000000000009'
PLACEMENT = {
    'trait:HW_CPU_X86_AVX2': 'required',
    'resources:VGPU': '1',
    'resources:PCPU': '0',
    'resources1:CUSTOM_FPGA': '1',
    'group_policy': 'none',
    'hw:cpu_policy': 'shared',
    'hw:tpm_version': '2.0',
    'hw:mem_encryption': 'true',
    'accel:device_profile': 'fpga',
    'quota:disk_read_iops_sec': '100',
    'hw_rng:allowed': 'True',
}
"""Extra specs that placement or the compute looks at."""


def enabled_checks(filters=DEFAULT, driver='filter_scheduler', scheduler=(), **options):
    conf = make_conf(
        filter_scheduler={'enabled_filters': list(filters), **options},
        scheduler={'driver': driver, **dict(scheduler)},
    )
    return EnabledChecks.from_conf(conf, plugins.profile_from_conf(conf))


DEFAULT_CHECKS = enabled_checks()


@functools.cache
def installed():
    """Every filter, by name."""
    names = [each for each in unchecked.KNOWN if each.endswith(('Filter', 'Isolation'))]
    conf = make_conf(filter_scheduler={'enabled_filters': names})
    return {each.name: each for each in plugins.profile_from_conf(conf).filters}


def request_sentences(found, asked, keys=()):
    demands = unchecked.unchecked_demands(found, summary(asked), keys)
    return unchecked.sentences(found, demands)


def cloud_sentences(found, flavors=(), aggregates=(), groups=()):
    demands = unchecked.demands_of_cloud(found, dict(flavors), aggregates, dict(groups))
    return unchecked.sentences(found, demands)


def test_every_filter_that_is_installed_is_known():
    points = importlib.metadata.entry_points(group='novasched.scheduler.filters')
    named = {each for each in unchecked.KNOWN if not each.islower()}
    weighers = {row.checks[0] for row in unchecked.GROUP[2:]}
    assert named - weighers == {each.name for each in points}


def asking(name, specs=None, image=None, metadata=None, said='', **fields):
    """One demand, for the host of a proof; the filter that rejects it."""
    return said or name, name, specs or {}, image, metadata or {}, fields


PROOFS = (
    asking('NUMATopologyFilter', {'hw:cpu_policy': 'dedicated'}),
    asking('NUMATopologyFilter', {'hw:mem_page_size': 'large'}, said='pages'),
    asking('NUMATopologyFilter', {'hw:numa_nodes': '1'}, said='nodes'),
    asking('NUMATopologyFilter', {'resources:PCPU': '1'}, said='PCPU'),
    asking('NUMATopologyFilter', image={'hw_numa_nodes': 1}, said='image nodes'),
    asking('NUMATopologyFilter', image={'hw_cpu_policy': 'dedicated'},
        said='image CPUs'),
    asking('NUMATopologyFilter', image={'hw_mem_page_size': '4'}, said='image pages',
        numa_topology=factories.guest_topology(factories.guest_cell(pagesize=4))),
    asking('PciPassthroughFilter', {'pci_passthrough:alias': 'nic:1'},
        pci_requests=factories.devices()),
    asking('ComputeCapabilitiesFilter', {'capabilities:vcpus_total': '>= 999'}),
    asking('ComputeCapabilitiesFilter', {'hw:maxphysaddr_bits': '99'}, said='bits'),
    asking('AggregateInstanceExtraSpecsFilter',
        {'aggregate_instance_extra_specs:ssd': 'true'}),
    asking('AggregateInstanceExtraSpecsFilter', {'ssd': 'true'},
        metadata={'ssd': 'false'}, said='unscoped'),
    asking('DedicatedCloudFilter', {'dedicated_cloud:id': 'pool'}),
    asking('LocalDiskFilter', {'local_disk:type': 'nvme'}),
    asking('LocalDiskFilter', {'local_disk:size_gb': '9'}, said='size'),
    asking('VGPUFilter', {'vgpu:type': 'nvidia-35'}),
    asking('ImagePropertiesFilter', image={'hw_architecture': 'aarch64'}),
    asking('ImagePropertiesFilter', image={'img_hv_type': 'xen'}, said='hypervisor'),
    asking('ImagePropertiesFilter', image={'hw_vm_mode': 'xen'}, said='mode'),
    asking('ServerGroupAffinityFilter',
        instance_group=factories.group('affinity', hosts=['h9'])),
    asking('ServerGroupAntiAffinityFilter',
        instance_group=factories.group('anti-affinity', [OTHER])),
    asking('SameHostFilter', scheduler_hints={'same_host': ['none']}),
    asking('DifferentHostFilter', scheduler_hints={'different_host': [OTHER]}),
    asking('SimpleCIDRAffinityFilter',
        scheduler_hints={'build_near_host_ip': ['192.0.2.1']}),
    asking('JsonFilter', scheduler_hints={'query': ['["=", "$host", "h9"]']}),
    asking('AggregateMultiTenancyIsolation', metadata={'filter_tenant_id2': 'p'}),
    asking('AggregateTypeAffinityFilter', metadata={'instance_type': 'large'}),
    asking('AggregateNumInstancesFilter', metadata={'max_instances_per_host': '0'}),
    asking('AggregateIoOpsFilter', metadata={'max_io_ops_per_host': '0'}),
    asking('AggregateCoreFilter', metadata={'cpu_allocation_ratio': '0.001'}),
    asking('AggregateRamFilter', metadata={'ram_allocation_ratio': '0.001'}),
    asking('AggregateDiskFilter', metadata={'disk_allocation_ratio': '0.001'}),
    asking('DedicatedCloudFilter', metadata={'dedicated_cloud_id': 'pool'},
        said='pool'),
    asking('AggregateImagePropertiesIsolation', image={'os_distro': 'linux'},
        metadata={'os_distro': 'windows'}),
)  # fmt: skip


@cases('name, specs, image, metadata, fields', *PROOFS)
def test_proposed_filter_rejects_a_host_that_others_pass(
    name, specs, image, metadata, fields
):
    asked = factories.request(extra_specs=specs, image=image, **fields)
    if 'numa_topology' not in fields:
        asked = asked.replaced(numa_topology=numa_topology_of(asked))
    aggregate = factories.aggregate(1, ['h1'], **metadata)
    hosts = factories.hosts(
        aggregates=[(aggregate,)] if metadata else [()],
        instances=[{OTHER: None}],
        host_ip=[netaddr.IPAddress('198.51.100.1')],
        allocation_candidates=[[{'allocations': {}, 'mappings': {}}]],
    )
    assert_rejects(installed()[name], hosts, asked)
    without, including = (
        dataclasses.replace(DEFAULT_CHECKS, filters=frozenset(names))
        for names in ({*DEFAULT} - {name}, {*DEFAULT, name})
    )
    remedy = f': {unchecked._remedy(without, name)}'

    def named(found):
        said = request_sentences(found, asked, metadata) + cloud_sentences(
            found, (), [aggregate]
        )
        return [each for each in said if each.endswith(remedy)]

    assert len(named(without)) == 1
    assert named(including) == []


def test_the_defaults_of_nova_check_what_is_asked_of_them():
    found = DEFAULT_CHECKS
    asked = factories.request(
        extra_specs={**PLACEMENT, 'capabilities:vcpus_total': '>= 2', 'note': 'x'},
        image={'hw_architecture': 'x86_64', 'hw_disk_bus': 'scsi', 'os_distro': 'x'},
        availability_zone='az1',
        instance_group=factories.group('affinity'),
        scheduler_hints={'group': ['g'], 'same_host': [''], 'own': ['x']},
    )
    assert request_sentences(found, asked) == []
    aggregate = factories.aggregate(1, availability_zone='az1', rack='r1')
    groups = dict.fromkeys((row.key for row in unchecked.GROUP), 7)
    assert (
        cloud_sentences(found, {'m1.small': asked.extra_specs}, [aggregate], groups)
        == []
    )


def test_the_walk_through_asks_for_nothing_that_its_filters_do_not_check():
    specs = {'flavor_class': 's3-public', 'hw:mem_page_size': '1048576'}
    aggregates = [factories.aggregate(1, flavor_class='s3-public')]
    cloud = {'s3': specs}, aggregates
    own = ('AvailabilityZoneFilter', unchecked.EXTRA_SPECS, unchecked.NODES)
    assert cloud_sentences(enabled_checks([*DEFAULT, *own]), *cloud) == []
    assert cloud_sentences(DEFAULT_CHECKS, *cloud) == [
        'Flavor s3 asks for flavor_class=s3-public, which no enabled filter checks: '
        'add AggregateInstanceExtraSpecsFilter to [filter_scheduler] enabled_filters',
        'Flavor s3 asks for hw:mem_page_size=1048576, which no enabled filter checks: '
        'add NUMATopologyFilter to [filter_scheduler] enabled_filters',
    ]


def sent_requests(value):
    """Yield the requests of a message as nova sends it."""
    if isinstance(value, dict) and value.get('nova_object.name') == 'RequestSpec':
        yield parse(value)
    elif isinstance(value, str) and value.startswith('{'):
        yield from sent_requests(json.loads(value))
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from sent_requests(each)


def test_requests_of_nova_are_checked_by_the_filters_that_are_named_for_them():
    requests = [
        request
        for path in sorted(SAMPLES.glob('*.request.json'))
        for request in sent_requests(json.loads(path.read_text()))
    ]
    own = ('NUMATopologyFilter', 'PciPassthroughFilter', 'DifferentHostFilter')
    enough = enabled_checks([*DEFAULT, *own, 'JsonFilter'])
    assert [request_sentences(enough, each) for each in requests] == [[]] * len(
        requests
    )
    said = {
        line for each in requests for line in request_sentences(DEFAULT_CHECKS, each)
    }
    remedies = {line.partition(': add ')[2].partition(' ')[0] for line in said}
    assert remedies == {*own, 'JsonFilter'}


def test_demand_of_many_flavors_or_groups_is_one_sentence():
    flavors = {f'm1.{n}': {'hw:cpu_policy': 'mixed'} for n in range(7)}
    flavors['m1.3'] = {'hw:numa_nodes': '2'}
    assert cloud_sentences(DEFAULT_CHECKS, flavors) == [
        '7 flavors (m1.0, m1.1, m1.2, m1.3, m1.4 and 2 more) ask for hw:cpu_policy, '
        'hw:numa_nodes, which no enabled filter checks: add NUMATopologyFilter to '
        '[filter_scheduler] enabled_filters'
    ]
    assert cloud_sentences(
        enabled_checks(DEFAULT[:3]), groups={'affinity': 1, 'anti-affinity': 9}
    ) == [
        'The server group asks for affinity, which no enabled filter checks: add '
        'ServerGroupAffinityFilter to [filter_scheduler] enabled_filters',
        '9 server groups ask for anti-affinity, which no enabled filter checks: add '
        'ServerGroupAntiAffinityFilter to [filter_scheduler] enabled_filters',
    ]


AFFINITY = 'nova.scheduler.weights.affinity.ServerGroupSoft'


@cases(
    'options, keys, remedy',
    ('counts', {}, (), None),
    (
        'of no weight',
        {'soft_affinity_weight_multiplier': 0},
        (),
        'set [filter_scheduler] soft_affinity_weight_multiplier to more than 0',
    ),
    (
        'of weight in an aggregate',
        {'soft_affinity_weight_multiplier': 0},
        ('soft_affinity_weight_multiplier',),
        None,
    ),
    (
        'not enabled',
        {'weight_classes': [f'{AFFINITY}AntiAffinityWeigher']},
        ('soft_affinity_weight_multiplier',),
        f'add {AFFINITY}AffinityWeigher to [filter_scheduler] weight_classes',
    ),
)
def test_weighers_count_soft_policies(options, keys, remedy):
    asked = factories.request(instance_group=factories.group('soft-affinity'))
    said = 'The server group asks for soft-affinity, which no enabled weigher counts: '
    expected = [] if remedy is None else [f'{said}{remedy}']
    assert request_sentences(enabled_checks(**options), asked, keys) == expected


@cases(
    'option, metadata',
    (
        'isolated aggregates',
        'enable_isolated_aggregate_filtering',
        {'trait:CUSTOM_LICENSED': 'required'},
    ),
    ('tenants', 'limit_tenants_to_placement_aggregate', {'filter_tenant_id': 'p1'}),
    ('zones', 'query_placement_for_availability_zone', {'availability_zone': 'az1'}),
)
def test_prefilters_check_aggregates(option, metadata):
    traits = {key: value for key, value in metadata.items() if ':' in key}
    cloud = {'m1.licensed': traits}, [factories.aggregate(1, **metadata)]
    assert cloud_sentences(enabled_checks(scheduler={option: True}), *cloud) == []
    (said,) = cloud_sentences(enabled_checks(scheduler={option: False}), *cloud)
    assert said.startswith(f'Aggregate agg1 has {"=".join(*metadata.items())}, which')


def test_a_zone_that_nothing_asks_placement_for():
    asked, off = factories.request(availability_zone='az1'), {unchecked.ZONES: False}
    assert request_sentences(enabled_checks(scheduler=off), asked) == [
        'The request asks for availability_zone=az1, which no enabled filter checks: '
        'set [scheduler] query_placement_for_availability_zone = True'
    ]
    by_filter = [*DEFAULT, 'AvailabilityZoneFilter']
    assert request_sentences(enabled_checks(by_filter, scheduler=off), asked) == []


def test_metadata_that_flavors_ask_for_is_theirs():
    flavors = {'win': {'aggregate_instance_extra_specs:os_distro': 'windows'}}
    aggregates = [factories.aggregate(1, os_distro='windows')]
    assert (
        cloud_sentences(enabled_checks([unchecked.EXTRA_SPECS]), flavors, aggregates)
        == []
    )
    assert len(cloud_sentences(DEFAULT_CHECKS, flavors, aggregates)) == 1


def test_devices_of_servers_with_nodes_are_fitted_with_these():
    alias = {'pci_passthrough:alias': 'nic:1'}
    found = enabled_checks([unchecked.NODES])
    assert len(cloud_sentences(found, {'nic': alias})) == 1
    assert cloud_sentences(found, {'nic': {**alias, 'hw:numa_nodes': '1'}}) == []


@cases(
    'option, value, check',
    ('hosts', 'isolated_hosts', ['h1'], 'IsolatedHostsFilter'),
    ('instances', 'max_instances_per_host', 20, 'NumInstancesFilter'),
)
def test_options_that_a_filter_reads(option, value, check):
    assert cloud_sentences(enabled_checks(**{option: value})) == [
        f'Section [filter_scheduler] sets {option}, which no enabled filter checks: '
        f'add {check} to [filter_scheduler] enabled_filters'
    ]
    assert cloud_sentences(enabled_checks([check], **{option: value})) == []


class Licences:
    """A filter of an operator; nobody knows what it reads."""

    def host_passes(self, host_state, spec_obj):
        return True


class OwnNodes(plugins.profile_from_conf(make_conf()).filters[0].__class__):
    """A filter of ours that an operator changed."""


def plugged(*classes):
    paths = [f'{__name__}.{each.__name__}' for each in classes]
    names = [each.__name__ for each in classes]
    return enabled_checks(names, available_filters=paths)


def test_a_filter_that_is_not_known_may_check_anything():
    flavors = {'gold': {'licence': 'gold', 'hw:numa_nodes': '2'}}
    aggregates = [factories.aggregate(1, licence='gold')]
    assert cloud_sentences(plugged(Licences), flavors, aggregates) == [
        'Flavor gold asks for hw:numa_nodes=2, which no enabled filter checks, unless '
        'Licences does: add NUMATopologyFilter to [filter_scheduler] enabled_filters'
    ]


def test_a_changed_filter_checks_what_the_original_does():
    found = plugged(OwnNodes)
    assert (found.plugins, 'ComputeFilter' in found.filters) == (('OwnNodes',), True)


def test_bare_metal_has_filters_of_its_own():
    found = enabled_checks(use_baremetal_filters=True)
    (said,) = cloud_sentences(found, {'bm': {'hw:numa_nodes': '1'}})
    assert said.endswith(' to [filter_scheduler] baremetal_enabled_filters')


def test_nothing_is_said_of_a_driver_that_may_not_filter():
    assert enabled_checks(driver='chance_scheduler') is None
    assert enabled_checks(driver='nova.scheduler.caching_scheduler.CachingScheduler')


PINNED = factories.request(extra_specs={'hw:cpu_policy': 'dedicated'})


@cases(
    'changes, number',
    ('new', {}, 1),
    ('forced', {'force_hosts': ['h1']}, 0),
    (
        'forced, but checked',
        {'force_hosts': ['h1'], 'scheduler_hints': {'_nova_check_type': ['live']}},
        1,
    ),
    ('a rebuild', {'scheduler_hints': {'_nova_check_type': ['rebuild']}}, 0),
)
def test_requests_that_no_filter_is_asked_of(changes, number):
    assert len(request_sentences(DEFAULT_CHECKS, PINNED.replaced(**changes))) == number


@cases(
    'changes, number',
    ('as it is', {}, 1),
    ('of a dry run', {'driver': ''}, 0),
    ('with the filter', {'filters': [unchecked.NODES]}, 0),
)
def test_records_say_it_as_far_as_they_know_the_policy(changes, number):
    conf = make_conf()
    kept = profile_summary(plugins.profile_from_conf(conf), conf) | changes
    found = EnabledChecks.of_record(kept)
    asked = PINNED.replaced(availability_zone='az1')
    assert len(request_sentences(found, asked)) == number
    assert EnabledChecks.of_record({'version': '0.1'}) is None

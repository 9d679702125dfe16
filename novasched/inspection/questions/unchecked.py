# SPDX-License-Identifier: Apache-2.0
"""Demands of flavors, images, aggregates and server groups that nothing checks.

Each demand has filters, weighers or options of prefilters that look at it. Where none
of them is enabled, servers go where they must not, and nothing fails.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from novasched.decisions import request_summary
from novasched.decisions.request_summary import RequestSummary

if TYPE_CHECKING:
    from novasched.db.servers import SqlServers
    from novasched.scheduler.aggregates import Aggregate
    from novasched.scheduler.pipeline import Profile

MOST_NAMES = 5
NODES, IMAGES = 'NUMATopologyFilter', 'ImagePropertiesFilter'
CAPABILITIES = 'ComputeCapabilitiesFilter'
EXTRA_SPECS = 'AggregateInstanceExtraSpecsFilter'
ZONE, ZONES = 'availability_zone', 'query_placement_for_availability_zone'
ISOLATED = 'IsolatedHostsFilter'


class DemandRule(NamedTuple):
    """Which key and values are a demand, and the ``checks`` of which one must be on.

    A ``key`` that ends with ``*`` is a prefix of keys. The first check is proposed.
    """

    key: str
    checks: tuple[str, ...]
    values: tuple[str, ...] = ()  # only these are a demand; any value if empty
    nothing: tuple[str, ...] = ('',)  # values that demand nothing

    def asks(self, key: str, value: str) -> bool:
        """Return whether a key and its value are this demand."""
        start, is_scope, _ = self.key.partition('*')
        named = key.startswith(start) if is_scope else key == start
        demands = value in self.values if self.values else value not in self.nothing
        return named and demands


_PINNING = ('dedicated', 'mixed')
ALIAS, SCOPE = 'pci_passthrough:alias', 'aggregate_instance_extra_specs'

FLAVOR = (
    DemandRule('hw:cpu_policy', (NODES,), _PINNING),
    DemandRule('hw:mem_page_size', (NODES,)),
    DemandRule('hw:numa_nodes', (NODES,)),
    DemandRule('resources:PCPU', (NODES,), nothing=('', '0')),
    DemandRule(ALIAS, ('PciPassthroughFilter',)),
    DemandRule('capabilities:*', (CAPABILITIES,)),
    DemandRule('hw:maxphysaddr_bits', (CAPABILITIES,)),
    DemandRule(f'{SCOPE}:*', (EXTRA_SPECS,)),
    DemandRule('trust:trusted_host', ('TrustedFilter',)),
    DemandRule('dedicated_cloud:id', ('DedicatedCloudFilter',)),
    DemandRule('local_disk:*', ('LocalDiskFilter',)),
    DemandRule('vgpu:type', ('VGPUFilter',)),
)
"""Extra specs; ``trait:``, ``resources:`` and features are always asked of
placement."""

UNSCOPED = DemandRule('*', (EXTRA_SPECS,))
"""An extra spec without a scope, where an aggregate has such a key."""

IMAGE = (
    DemandRule('hw_architecture', (IMAGES, 'image_metadata_prefilter')),
    DemandRule('img_hv_type', (IMAGES,)),
    DemandRule('hw_vm_mode', (IMAGES,)),
    DemandRule('img_hv_requested_version', (IMAGES,)),
    DemandRule('hw_maxphysaddr_bits', (IMAGES,)),
    DemandRule('hw_cpu_policy', (NODES,), _PINNING),
    DemandRule('hw_mem_page_size', (NODES,)),
    DemandRule('hw_numa_nodes', (NODES,)),
    DemandRule('hw_emulation_architecture', ('image_metadata_prefilter',)),
)

AGGREGATE = (
    DemandRule(
        'filter_tenant_id*',
        ('AggregateMultiTenancyIsolation', 'limit_tenants_to_placement_aggregate'),
    ),
    DemandRule(ZONE, (ZONES, 'AvailabilityZoneFilter')),
    DemandRule('instance_type', ('AggregateTypeAffinityFilter',)),
    DemandRule('max_instances_per_host', ('AggregateNumInstancesFilter',)),
    DemandRule('max_io_ops_per_host', ('AggregateIoOpsFilter',)),
    DemandRule('cpu_allocation_ratio', ('AggregateCoreFilter',)),
    DemandRule('ram_allocation_ratio', ('AggregateRamFilter',)),
    DemandRule('disk_allocation_ratio', ('AggregateDiskFilter',)),
    DemandRule('trait:*', ('enable_isolated_aggregate_filtering',), ('required',)),
    DemandRule('dedicated_cloud_id', ('DedicatedCloudFilter',)),
)

OF_IMAGES = DemandRule('*', ('AggregateImagePropertiesIsolation',))
"""Metadata whose key is the name of an image property."""

GROUP = (
    DemandRule('affinity', ('ServerGroupAffinityFilter',)),
    DemandRule('anti-affinity', ('ServerGroupAntiAffinityFilter',)),
    DemandRule('soft-affinity', ('ServerGroupSoftAffinityWeigher',)),
    DemandRule('soft-anti-affinity', ('ServerGroupSoftAntiAffinityWeigher',)),
)

SOFT = ('soft-affinity', 'soft-anti-affinity')
"""Aggregates may have multipliers of what counts them."""

HINT = (
    DemandRule('same_host', ('SameHostFilter',)),
    DemandRule('different_host', ('DifferentHostFilter',)),
    DemandRule('build_near_host_ip', ('SimpleCIDRAffinityFilter',)),
    DemandRule('query', ('JsonFilter',)),
    DemandRule('dedicated_cloud_id', ('DedicatedCloudFilter',)),
)

OPTION = (
    DemandRule('isolated_hosts', (ISOLATED,), nothing=('[]',)),
    DemandRule('isolated_images', (ISOLATED,), nothing=('[]',)),
    DemandRule('max_instances_per_host', ('NumInstancesFilter',), nothing=('50',)),
    DemandRule('max_io_ops_per_host', ('IoOpsFilter',), nothing=('8',)),
)
"""Options of group filter_scheduler; their defaults demand nothing."""

TABLES = (FLAVOR, (UNSCOPED,), IMAGE, AGGREGATE, (OF_IMAGES,), GROUP, HINT, OPTION)

_OTHERS = (
    'AllHostsFilter ComputeFilter CoreFilter DiskFilter ExactCoreFilter '
    'ExactDiskFilter ExactRamFilter GroupAffinityFilter GroupAntiAffinityFilter '
    'MetricsFilter RamFilter RetryFilter TypeAffinityFilter'
)
"""Filters that check what no key asks for; with the filters of the tables, all."""
CHECKS = frozenset().union(*(rule.checks for table in TABLES for rule in table))
KNOWN = CHECKS.union(_OTHERS.split())

_DRIVERS = 'filter_scheduler caching_scheduler FilterScheduler CachingScheduler'
_MULTIPLIERS = {
    'ServerGroupSoftAffinityWeigher': 'soft_affinity_weight_multiplier',
    'ServerGroupSoftAntiAffinityWeigher': 'soft_anti_affinity_weight_multiplier',
}
_RATIOS = {
    f'Aggregate{name}Filter': f'{what}_allocation_ratio'
    for name, what in (('Core', 'cpu'), ('Ram', 'ram'), ('Disk', 'disk'))
}


@dataclasses.dataclass(frozen=True)
class EnabledChecks:
    """The filters, weighers and options that are on."""

    filters: frozenset[str]  # names of classes and of their base classes
    weighers: Mapping[str, float | None]  # multipliers by name; None if it is no number
    options: frozenset[str] | None = None  # of group scheduler; None if unknown
    plugins: tuple[str, ...] = ()  # filters of which it is not known what they check
    demanded: tuple[DemandRule, ...] = ()
    """Options of group filter_scheduler that demand something."""
    filters_option: str = 'enabled_filters'

    @classmethod
    def from_conf(cls, conf: Any, profile: Profile) -> Self | None:
        """Return the checks of a configuration, or None if its driver may decide by
        anything else than filters."""
        if not _is_filter_driver(conf.scheduler.driver):
            return None
        group, plugins = conf.filter_scheduler, [each.name for each in profile.filters]
        return cls(
            frozenset().union(*map(_names, profile.filters)),
            {n: each.multiplier for each in profile.weighers for n in _names(each)},
            frozenset(n for n in CHECKS if n.islower() and conf.scheduler[n]),
            tuple(name for name in plugins if name not in KNOWN),
            tuple(rule for rule in OPTION if rule.asks(rule.key, str(group[rule.key]))),
            f'{"baremetal_" if group.use_baremetal_filters else ""}enabled_filters',
        )

    @classmethod
    def of_record(cls, kept: Mapping[str, Any] | None) -> Self | None:
        """Return the checks that a decision record keeps, or None if it keeps none."""
        if not kept or not _is_filter_driver(kept.get('driver', '')):
            return None  # a dry run keeps no driver: its answer has the demands itself
        plugins = tuple(name for name in kept['filters'] if name not in KNOWN)
        return cls(frozenset(kept['filters']), kept['weighers'], plugins=plugins)

    def lacks(self, rule: DemandRule) -> bool:
        """Return whether none of the checks of a demand is on."""
        return not any(map(self._has, rule.checks))

    def _has(self, name: str) -> bool:
        if name.islower():
            return self.options is None or name in self.options
        return name in self.filters or self.weighers.get(name, 0.0) != 0.0


def _is_filter_driver(driver: str) -> bool:
    return driver.rpartition('.')[2] in _DRIVERS.split()


def _names(plugin: Any) -> set[str]:
    """Return the names of the class of a filter or weigher, and of its base classes."""
    return {each.__name__ for each in type(getattr(plugin, 'plugin', plugin)).__mro__}


class Demand(NamedTuple):
    """A demand that nothing checks."""

    kind: str  # A key of KINDS
    name: str  # the flavor, image or aggregate with it; empty for a request, or a count
    what: str
    check: str  # what would check it
    number: int = 0


KINDS = {
    'flavor': ('flavor', 'flavors', 'asks for', 'ask for'),
    'image': ('image', 'images', 'asks for', 'ask for'),
    'aggregate': ('aggregate', 'aggregates', 'has', 'have'),
    'group': ('server group', 'server groups', 'asks for', 'ask for'),
    'request': ('request', 'requests', 'asks for', 'ask for'),
    'option': ('section', 'sections', 'sets', 'set'),
}


def unchecked_demands(
    enabled: EnabledChecks | None,
    request: RequestSummary,
    keys: Collection[str] | None = None,
) -> list[Demand]:
    """Return the demands of a request that nothing checks.

    ``keys`` are the keys of the metadata of aggregates; None if they are not known.
    """
    if enabled is None or request.skips_filters:
        return []
    flavor = request.flavor or request_summary.FlavorSummary()
    image = request.image or request_summary.ImageSummary()
    group = request.group or request_summary.GroupSummary()
    known = () if keys is None else keys
    policies = [p for p in group.policies if keys is not None or p not in SOFT]
    hints = {name: ''.join(values or ()) for name, values in request.hints.items()}
    return [
        *_demands_of_flavor(enabled, flavor.name, flavor.extra_specs, known),
        *_demands(enabled, IMAGE, 'image', image.id or '', image.properties),
        *(d for name in policies for d in _demands_of_group(enabled, name, known)),
        *_demands(enabled, HINT, 'request', '', hints, 'hint {}'),
        *_demands(enabled, AGGREGATE, 'request', '', {ZONE: request.zone}),
    ]


def sentences_on_store(enabled: EnabledChecks | None, store: SqlServers) -> list[str]:
    """Return sentences about the demands that the API database keeps. Raises
    errors.StoreFailed."""
    if enabled is None:
        return []
    kept = store.extra_specs(), store.aggregates(), store.group_policies()
    return sentences(enabled, demands_of_cloud(enabled, *kept))


def demands_of_cloud(
    enabled: EnabledChecks,
    flavors: Mapping[str, Mapping[str, str]],
    aggregates: Iterable[Aggregate],
    groups: Mapping[str, int],
) -> list[Demand]:
    """Return the demands of a cloud that nothing checks.

    ``flavors`` are extra specs by name, ``groups`` are numbers of server groups by
    policy.
    """
    from novasched.objects.image_meta import ImageMetaProps  # explain has no need of it

    listed = list(aggregates)
    keys = {key for each in listed for key in each.metadata}
    asked = {key.removeprefix(f'{SCOPE}:') for each in flavors.values() for key in each}
    found = [
        Demand('option', '[filter_scheduler]', rule.key, rule.checks[0])
        for rule in enabled.demanded
        if enabled.lacks(rule)
    ]
    for name, specs in flavors.items():
        found += _demands_of_flavor(enabled, name, specs, keys)
    for each in listed:
        name = each.name or str(each.id)
        for key, value in sorted(each.metadata.items()):
            rules: tuple[DemandRule, ...] = AGGREGATE
            if key in ImageMetaProps.fields:
                rules = (*AGGREGATE, OF_IMAGES)
            if key not in asked or ':' in key:  # else it is there for flavors
                found += _demands(enabled, rules, 'aggregate', name, {key: value})
    for group, number in groups.items():
        found += (
            d._replace(number=number) for d in _demands_of_group(enabled, group, keys)
        )
    return found


def _demands(
    enabled: EnabledChecks,
    rules: Iterable[DemandRule],
    kind: str,
    name: str,
    values: Mapping[str, str],
    what: str = '{}={}',
) -> Iterator[Demand]:
    """Yield the demands of keys and their values that nothing checks."""
    for key, value in sorted(values.items()):
        rule = next((each for each in rules if each.asks(key, value)), None)
        if rule is not None and enabled.lacks(rule):
            yield Demand(kind, name, what.format(key, value), rule.checks[0])


def _demands_of_flavor(
    enabled: EnabledChecks, name: str, specs: Mapping[str, str], keys: Collection[str]
) -> Iterator[Demand]:
    # NUMATopologyFilter fits devices, too, of servers that have NUMA nodes.
    fits = any(
        rule.checks == (NODES,) and rule.asks(*each)
        for rule in FLAVOR
        for each in specs.items()
    ) and not enabled.lacks(FLAVOR[0])
    for key, value in sorted(specs.items()):
        rules: tuple[DemandRule, ...] = FLAVOR
        if ':' not in key and key in keys and not enabled.plugins:
            rules = (*FLAVOR, UNSCOPED)
        if key != ALIAS or not fits:
            yield from _demands(enabled, rules, 'flavor', name, {key: value})


def _demands_of_group(
    enabled: EnabledChecks, name: str, keys: Collection[str]
) -> Iterator[Demand]:
    for rule in GROUP:
        check = rule.checks[0]
        counts = check in enabled.weighers and _MULTIPLIERS.get(check) in keys
        if rule.key == name and not counts and enabled.lacks(rule):
            yield Demand('group', '', name, check)


def sentences(enabled: EnabledChecks | None, demands: Iterable[Demand]) -> list[str]:
    """Return a sentence for each kind of demand, and each remedy."""
    groups: dict[tuple[str, str], list[Demand]] = {}
    for each in demands:
        groups.setdefault((each.kind, each.check), []).append(each)
    return [] if enabled is None else [_sentence(enabled, g) for g in groups.values()]


def _sentence(enabled: EnabledChecks, demands: list[Demand]) -> str:
    kind, _, _, check, _ = demands[0]
    one, many, asks, ask = KINDS[kind]
    names = list(dict.fromkeys(each.name for each in demands if each.name))
    number = len(names) or sum(each.number for each in demands)
    who = f'{one.capitalize()} {names[0]}' if names else f'the {one}'.capitalize()
    whats = list(dict.fromkeys(each.what for each in demands))
    if number > 1:
        whats = list(dict.fromkeys(what.partition('=')[0] for what in whats))
        who = f'{number} {many}{f" ({_listed(names)})" if names else ""}'
    counts = 'no enabled weigher counts' if check in _MULTIPLIERS else ''
    plugins = f', unless {_listed(enabled.plugins)} does' if enabled.plugins else ''
    return (
        f'{who} {ask if number > 1 else asks} {_listed(whats)}, which '
        f'{counts or "no enabled filter checks"}{plugins}: {_remedy(enabled, check)}'
    )


def _listed(names: Collection[str]) -> str:
    more = len(names) - MOST_NAMES
    found = ', '.join(list(names)[:MOST_NAMES])
    return f'{found} and {more} more' if more > 0 else found


def _remedy(enabled: EnabledChecks, check: str) -> str:
    if check.islower():
        return f'set [scheduler] {check} = True'
    if check in _RATIOS:  # these filters are deprecated: placement counts
        return f'set [DEFAULT] {_RATIOS[check]} on the computes'
    if check not in _MULTIPLIERS:
        return f'add {check} to [filter_scheduler] {enabled.filters_option}'
    if check in enabled.weighers:
        return f'set [filter_scheduler] {_MULTIPLIERS[check]} to more than 0'
    path = f'nova.scheduler.weights.affinity.{check}'
    return f'add {path} to [filter_scheduler] weight_classes'

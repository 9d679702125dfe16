# SPDX-License-Identifier: Apache-2.0
"""Demands of flavors, images, aggregates and server groups that nothing checks.

Each demand has filters, weighers or options of prefilters that look at it. Where none
of them is enabled, servers go where they must not, and nothing fails.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

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


class Row(NamedTuple):
    """A demand, and what checks it: one is enough, the first is proposed.

    A ``key`` with a ``*`` at its end is the beginning of keys. ``values``: only these
    demand something; ``nothing``: these do not.
    """

    key: str
    checks: tuple[str, ...]
    values: tuple[str, ...] = ()
    nothing: tuple[str, ...] = ('',)

    def asks(self, key: str, value: str) -> bool:
        """Return whether a key and its value are this demand."""
        start, is_scope, _ = self.key.partition('*')
        named = key.startswith(start) if is_scope else key == start
        demands = value in self.values if self.values else value not in self.nothing
        return named and demands


_PINNING = ('dedicated', 'mixed')
ALIAS, SCOPE = 'pci_passthrough:alias', 'aggregate_instance_extra_specs'

FLAVOR = (
    Row('hw:cpu_policy', (NODES,), _PINNING),
    Row('hw:mem_page_size', (NODES,)),
    Row('hw:numa_nodes', (NODES,)),
    Row('resources:PCPU', (NODES,), nothing=('', '0')),
    Row(ALIAS, ('PciPassthroughFilter',)),
    Row('capabilities:*', (CAPABILITIES,)),
    Row('hw:maxphysaddr_bits', (CAPABILITIES,)),
    Row(f'{SCOPE}:*', (EXTRA_SPECS,)),
    Row('trust:trusted_host', ('TrustedFilter',)),
    Row('dedicated_cloud:id', ('DedicatedCloudFilter',)),
    Row('local_disk:*', ('LocalDiskFilter',)),
    Row('vgpu:type', ('VGPUFilter',)),
)
"""Extra specs; ``trait:``, ``resources:`` and features are always asked of
placement."""

UNSCOPED = Row('*', (EXTRA_SPECS,))
"""An extra spec without a scope, where an aggregate has such a key."""

IMAGE = (
    Row('hw_architecture', (IMAGES, 'image_metadata_prefilter')),
    Row('img_hv_type', (IMAGES,)),
    Row('hw_vm_mode', (IMAGES,)),
    Row('img_hv_requested_version', (IMAGES,)),
    Row('hw_maxphysaddr_bits', (IMAGES,)),
    Row('hw_cpu_policy', (NODES,), _PINNING),
    Row('hw_mem_page_size', (NODES,)),
    Row('hw_numa_nodes', (NODES,)),
    Row('hw_emulation_architecture', ('image_metadata_prefilter',)),
)

AGGREGATE = (
    Row(
        'filter_tenant_id*',
        ('AggregateMultiTenancyIsolation', 'limit_tenants_to_placement_aggregate'),
    ),
    Row(ZONE, (ZONES, 'AvailabilityZoneFilter')),
    Row('instance_type', ('AggregateTypeAffinityFilter',)),
    Row('max_instances_per_host', ('AggregateNumInstancesFilter',)),
    Row('max_io_ops_per_host', ('AggregateIoOpsFilter',)),
    Row('cpu_allocation_ratio', ('AggregateCoreFilter',)),
    Row('ram_allocation_ratio', ('AggregateRamFilter',)),
    Row('disk_allocation_ratio', ('AggregateDiskFilter',)),
    Row('trait:*', ('enable_isolated_aggregate_filtering',), ('required',)),
    Row('dedicated_cloud_id', ('DedicatedCloudFilter',)),
)

OF_IMAGES = Row('*', ('AggregateImagePropertiesIsolation',))
"""Metadata whose key is the name of an image property."""

GROUP = (
    Row('affinity', ('ServerGroupAffinityFilter',)),
    Row('anti-affinity', ('ServerGroupAntiAffinityFilter',)),
    Row('soft-affinity', ('ServerGroupSoftAffinityWeigher',)),
    Row('soft-anti-affinity', ('ServerGroupSoftAntiAffinityWeigher',)),
)

SOFT = ('soft-affinity', 'soft-anti-affinity')
"""Aggregates may have multipliers of what counts them."""

HINT = (
    Row('same_host', ('SameHostFilter',)),
    Row('different_host', ('DifferentHostFilter',)),
    Row('build_near_host_ip', ('SimpleCIDRAffinityFilter',)),
    Row('query', ('JsonFilter',)),
    Row('dedicated_cloud_id', ('DedicatedCloudFilter',)),
)

OPTION = (
    Row('isolated_hosts', (ISOLATED,), nothing=('[]',)),
    Row('isolated_images', (ISOLATED,), nothing=('[]',)),
    Row('max_instances_per_host', ('NumInstancesFilter',), nothing=('50',)),
    Row('max_io_ops_per_host', ('IoOpsFilter',), nothing=('8',)),
)
"""Options of group filter_scheduler; their defaults demand nothing."""

TABLES = (FLAVOR, (UNSCOPED,), IMAGE, AGGREGATE, (OF_IMAGES,), GROUP, HINT, OPTION)

_OTHERS = (
    'AllHostsFilter ComputeFilter CoreFilter DiskFilter ExactCoreFilter '
    'ExactDiskFilter ExactRamFilter GroupAffinityFilter GroupAntiAffinityFilter '
    'MetricsFilter RamFilter RetryFilter TypeAffinityFilter'
)
"""Filters that check what no key asks for; with the filters of the tables, all."""
CHECKS = frozenset().union(*(row.checks for table in TABLES for row in table))
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
class Policy:
    """The filters, weighers and options that are on."""

    filters: frozenset[str]  # names of classes and of their base classes
    weighers: Mapping[str, float | None]  # multipliers by name; None if it is no number
    options: frozenset[str] | None = None  # of group scheduler; None if unknown
    plugins: tuple[str, ...] = ()  # filters of which it is not known what they check
    demanded: tuple[Row, ...] = ()
    """Options of group filter_scheduler that demand something."""
    enabled: str = 'enabled_filters'

    @classmethod
    def from_conf(cls, conf: Any, profile: Profile) -> Self | None:
        """Return the policy of a configuration; None where its driver may go by
        anything else than filters."""
        if not _goes_by_filters(conf.scheduler.driver):
            return None
        group, plugins = conf.filter_scheduler, [each.name for each in profile.filters]
        return cls(
            frozenset().union(*map(_names, profile.filters)),
            {n: each.multiplier for each in profile.weighers for n in _names(each)},
            frozenset(n for n in CHECKS if n.islower() and conf.scheduler[n]),
            tuple(name for name in plugins if name not in KNOWN),
            tuple(row for row in OPTION if row.asks(row.key, str(group[row.key]))),
            f'{"baremetal_" if group.use_baremetal_filters else ""}enabled_filters',
        )

    @classmethod
    def of_record(cls, kept: Mapping[str, Any] | None) -> Self | None:
        """Return the policy that a decision record keeps; None if it keeps none."""
        if not kept or not _goes_by_filters(kept.get('driver', '')):
            return None  # a dry run keeps no driver: its answer has the demands itself
        plugins = tuple(name for name in kept['filters'] if name not in KNOWN)
        return cls(frozenset(kept['filters']), kept['weighers'], plugins=plugins)

    def lacks(self, row: Row) -> bool:
        """Return whether none of what checks a demand is on."""
        return not any(map(self._has, row.checks))

    def _has(self, name: str) -> bool:
        if name.islower():
            return self.options is None or name in self.options
        return name in self.filters or self.weighers.get(name, 0.0) != 0.0


def _goes_by_filters(driver: str) -> bool:
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


def of_request(
    policy: Policy | None, kept: Mapping[str, Any], keys: Collection[str] | None = None
) -> list[Demand]:
    """Return the demands of a request that nothing checks.

    ``kept`` is the request as a record keeps it, decision_log.request.summary().
    ``keys`` are the keys of the metadata of aggregates; None if they are not known.
    """
    hints = kept.get('hints') or {}
    skips_filters = kept.get('forced') and '_nova_check_type' not in hints
    if policy is None or kept.get('is_rebuild') or skips_filters:
        return []
    flavor, image = kept.get('flavor') or {}, kept.get('image') or {}
    specs, name = flavor.get('extra_specs') or {}, flavor.get('name') or ''
    found = list(_of_flavor(policy, name, specs, keys or ()))
    for key, value in sorted((image.get('properties') or {}).items()):
        found += _of(policy, IMAGE, 'image', image.get('id') or '', key, str(value))
    for each in (kept.get('group') or {}).get('policies') or ():
        if keys is not None or each not in SOFT:
            found += _of_group(policy, each, keys or ())
    for key, values in sorted(hints.items()):
        made = _of(policy, HINT, 'request', '', key, ''.join(values or ()))
        found += (each._replace(what=f'hint {key}') for each in made)
    zone = kept.get('zone') or ''
    return [*found, *_of(policy, AGGREGATE, 'request', '', ZONE, zone)]


def of_store(policy: Policy | None, store: SqlServers) -> list[str]:
    """Return sentences about the demands that the API database keeps. Raises
    errors.StoreFailed."""
    if policy is None:
        return []
    kept = store.extra_specs(), store.aggregates(), store.group_policies()
    return sentences(policy, of_cloud(policy, *kept))


def of_cloud(
    policy: Policy,
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
        Demand('option', '[filter_scheduler]', row.key, row.checks[0])
        for row in policy.demanded
        if policy.lacks(row)
    ]
    for name, specs in flavors.items():
        found += _of_flavor(policy, name, specs, keys)
    for each in listed:
        name = each.name or str(each.id)
        for key, value in sorted(each.metadata.items()):
            rows = (*AGGREGATE, *(OF_IMAGES,) * (key in ImageMetaProps.fields))
            if key not in asked or ':' in key:  # else it is there for flavors
                found += _of(policy, rows, 'aggregate', name, key, value)
    for group, number in groups.items():
        found += (d._replace(number=number) for d in _of_group(policy, group, keys))
    return found


def _of(
    policy: Policy, rows: Iterable[Row], kind: str, name: str, key: str, value: str
) -> Iterator[Demand]:
    """Yield the demand of a key and its value, if it is one that nothing checks."""
    row = next((each for each in rows if each.asks(key, value)), None)
    if row is not None and policy.lacks(row):
        yield Demand(kind, name, f'{key}={value}', row.checks[0])


def _of_flavor(
    policy: Policy, name: str, specs: Mapping[str, str], keys: Collection[str]
) -> Iterator[Demand]:
    # NUMATopologyFilter fits devices, too, of servers that have NUMA nodes.
    fits = any(
        row.checks == (NODES,) and row.asks(*each)
        for row in FLAVOR
        for each in specs.items()
    ) and not policy.lacks(FLAVOR[0])
    for key, value in sorted(specs.items()):
        counts = ':' not in key and key in keys and not policy.plugins
        rows = (*FLAVOR, *(UNSCOPED,) * counts)
        if key != ALIAS or not fits:
            yield from _of(policy, rows, 'flavor', name, key, value)


def _of_group(policy: Policy, name: str, keys: Collection[str]) -> Iterator[Demand]:
    for row in GROUP:
        check = row.checks[0]
        counts = check in policy.weighers and _MULTIPLIERS.get(check) in keys
        if row.key == name and not counts and policy.lacks(row):
            yield Demand('group', '', name, check)


def sentences(policy: Policy | None, demands: Iterable[Demand]) -> list[str]:
    """Return a sentence for each kind of demand, and each remedy."""
    groups: dict[tuple[str, str], list[Demand]] = {}
    for each in demands:
        groups.setdefault((each.kind, each.check), []).append(each)
    return [] if policy is None else [_sentence(policy, g) for g in groups.values()]


def _sentence(policy: Policy, demands: list[Demand]) -> str:
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
    plugins = f', unless {_listed(policy.plugins)} does' if policy.plugins else ''
    return (
        f'{who} {ask if number > 1 else asks} {_listed(whats)}, which '
        f'{counts or "no enabled filter checks"}{plugins}: {_remedy(policy, check)}'
    )


def _listed(names: Collection[str]) -> str:
    more = len(names) - MOST_NAMES
    found = ', '.join(list(names)[:MOST_NAMES])
    return f'{found} and {more} more' if more > 0 else found


def _remedy(policy: Policy, check: str) -> str:
    if check.islower():
        return f'set [scheduler] {check} = True'
    if check in _RATIOS:  # these filters are deprecated: placement counts
        return f'set [DEFAULT] {_RATIOS[check]} on the computes'
    if check not in _MULTIPLIERS:
        return f'add {check} to [filter_scheduler] {policy.enabled}'
    if check in policy.weighers:
        return f'set [filter_scheduler] {_MULTIPLIERS[check]} to more than 0'
    path = f'nova.scheduler.weights.affinity.{check}'
    return f'add {path} to [filter_scheduler] weight_classes'

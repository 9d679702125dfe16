# SPDX-License-Identifier: Apache-2.0
"""Hosts, requests and checks for the tests of filters and weighers.

Hosts and requests are valid by default: a test says what matters to it. There is need
of no test framework, server or configuration file. See docs/plugins.md.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from oslo_config import cfg

from novasched import errors
from novasched.compat import plugin_adapter
from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta
from novasched.objects.instance_group import InstanceGroup
from novasched.objects.request_spec import Destination, RequestSpec
from novasched.scheduler import pipeline
from novasched.scheduler.aggregates import Aggregate
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.fit.parse import HostPools, host_topology
from novasched.scheduler.hosts import (
    Categories,
    Column,
    Columns,
    HostTable,
    Objects,
    Snapshot,
)
from novasched.scheduler.reasons import Reason
from novasched.scheduler.weighers import BaseHostWeigher, Weigher

INSTANCE = 'c0000000-0000-4000-8000-000000000001'
"""The instance that a request is about, unless it says otherwise."""

_NUMBERS: dict[str, float] = {
    'cpu_allocation_ratio': 4.0,
    'ram_allocation_ratio': 1.0,
    'disk_allocation_ratio': 1.0,
    'hypervisor_version': 8002002.0,
    'total_usable_ram_mb': 16384,
    'free_ram_mb': 8192,
    'total_usable_disk_gb': 100,
    'disk_mb_used': 0,
    'free_disk_mb': 102400,
    'vcpus_total': 8,
    'vcpus_used': 0,
    'num_instances': 0,
    'num_io_ops': 0,
    'failed_builds': 0,
    'recent_failed_builds': 0,
    'service_disabled': False,
    'service_up': True,
    'is_source': False,
}
"""Each has the type of its column."""
_CATEGORIES: dict[str, Any] = {
    'cell_uuid': 'cell1',
    'hypervisor_type': 'QEMU',
    'cpu_info': None,
    'supported_instances': [['x86_64', 'kvm', 'hvm']],
    'numa_topology': None,
    'pci_stats': None,
    'metrics': None,
    'aggregates': (),
    'public_flavors': (),
}
_OBJECTS: dict[str, Any] = {
    'host_ip': None,
    'stats': {},
    'updated': None,
    'instances': {},
    'instance_images': {},
    'limits': {},
    'allocation_candidates': [],
}
_NONE_BY_DEFAULT = (
    'numa_topology',
    'pci_requests',
    'availability_zone',
    'ignore_hosts',
    'force_hosts',
    'force_nodes',
    'requested_destination',
    'retry',
    'limits',
    'instance_group',
)


def objects(values: Sequence[Any]) -> Objects:
    """Return an array of Python objects, lists and dicts included."""
    column = np.empty(len(values), object)
    for row, value in enumerate(values):
        column[row] = value
    return column


def aggregate(number: int = 1, hosts: Iterable[str] = (), **metadata: str) -> Aggregate:
    """Return an aggregate with metadata; ``number`` makes its id and names."""
    return Aggregate(
        number, f'aggregate-{number}', f'agg{number}', frozenset(hosts), metadata
    )


def hosts(count: int | None = None, **columns: Iterable[Any]) -> HostTable:
    """Return a table of hosts h1, h2, ...: a list of values per column given.

    Without a column, ``count`` hosts (default 1). What a column is not given for
    is the same on every host; dicts and lists are not shared. Raises TypeError for a
    column that hosts do not have, and ValueError if some are longer than others.
    """
    known = {name for name, c in vars(Columns).items() if isinstance(c, Column)}
    if unknown := sorted(columns.keys() - known):
        raise TypeError(f'hosts have no columns {", ".join(unknown)}')
    given = {name: list(values) for name, values in columns.items()}
    if count is None:
        count = len(next(iter(given.values()), [None]))
    _fill(given, count)
    if wrong := sorted(name for name, v in given.items() if len(v) != count):
        raise ValueError(f'not {count} values: {", ".join(wrong)}')
    return HostTable(Snapshot({k: _column(k, v) for k, v in given.items()}))


def _fill(given: dict[str, list[Any]], count: int) -> None:
    """Add the columns that are not given."""
    given.setdefault('host', [f'h{i + 1}' for i in range(count)])
    given.setdefault('nodename', given['host'])
    given.setdefault('uuid', [f'uuid-{name}' for name in given['nodename']])
    given.setdefault('hypervisor_hostname', given['nodename'])
    if 'service' not in given:
        disabled = given.get('service_disabled', [False] * count)
        given['service'] = list(map(_service, given['host'], disabled))
    for name, value in {**_NUMBERS, **_CATEGORIES, **_OBJECTS}.items():
        given.setdefault(name, [copy.deepcopy(value) for _ in range(count)])


def _service(host: str, disabled: bool) -> dict[str, Any]:
    """Return the row of the compute service of a host."""
    nulls = 'disabled_reason last_seen_up created_at updated_at deleted_at'
    texts = {'uuid': f'service-{host}', 'host': host, 'topic': 'compute'}
    counts = {'id': 1, 'report_count': 1, 'version': 74}
    states = {'disabled': bool(disabled), 'forced_down': False, 'deleted': False}
    known = {'binary': 'nova-compute', **texts, **counts, **states}
    return {**known, **dict.fromkeys(nulls.split())}


def _column(name: str, values: list[Any]) -> Any:
    if name in _NUMBERS:
        return np.array(values, type(_NUMBERS[name]))
    if name not in _CATEGORIES:
        return objects(values)
    distinct: list[Any] = []
    for value in values:
        if value not in distinct:
            distinct.append(value)
    codes = np.array([distinct.index(value) for value in values], np.intp)
    if name == 'numa_topology':
        distinct = [host_topology(text) for text in distinct]
    elif name == 'pci_stats':
        distinct = [HostPools(text) for text in distinct]
    return Categories(distinct, codes)


def group(
    policy: str = 'anti-affinity',
    members: Iterable[str] = (),
    hosts: Iterable[str] = (),
    **rules: Any,
) -> InstanceGroup:
    """Return a server group with a policy and its rules."""
    made = InstanceGroup(
        uuid='60000000-0000-4000-8000-000000000001',
        policy=policy,
        policies=[policy],
        members=list(members),
        hosts=list(hosts),
        _rules={name: str(value) for name, value in rules.items()},
    )
    made.obj_reset_changes()
    return made


def destination(host: str, node: str | None = None) -> Destination:
    """Return a destination on a host."""
    made = Destination(host=host, node=node)
    made.obj_reset_changes()
    return made


def request(
    vcpus: int = 1,
    memory_mb: int = 512,
    root_gb: int = 1,
    ephemeral_gb: int = 0,
    swap: int = 0,
    extra_specs: Mapping[str, str] | None = None,
    image: Mapping[str, Any] | None = None,
    **values: Any,
) -> RequestSpec:
    """Return the request of one instance; ``swap`` is in MiB.

    ``image`` are the properties of its image; the other values are fields of
    the RequestSpec. Hints are lists of texts by name: ``scheduler_hints``.
    """
    flavor = Flavor(
        id=1,
        name='small',
        flavorid='1',
        vcpus=vcpus,
        memory_mb=memory_mb,
        root_gb=root_gb,
        ephemeral_gb=ephemeral_gb,
        swap=swap,
        extra_specs=extra_specs or {},
    )
    fields = {
        'image': None if image is None else ImageMeta.from_dict({'properties': image}),
        'flavor': flavor,
        'instance_uuid': INSTANCE,
        'project_id': 'project',
        'user_id': 'user',
        'num_instances': 1,
        **dict.fromkeys(_NONE_BY_DEFAULT),
        'scheduler_hints': {},
        **values,
    }
    made = RequestSpec(**fields)
    made.obj_reset_changes(recursive=True)
    return made


def load(path: str, nova_conf: str = '') -> Any:
    """Make the filter or weigher at a dotted path, as the service makes it.

    ``nova_conf`` is the text of a configuration file. A plugin made for nova may import
    nova from here on. Raises errors.SetupError if the class is neither.
    """
    # They import the whole service, which other tests do without.
    from novasched import plugins
    from novasched.process import opts

    conf = cfg.ConfigOpts()
    opts.register(conf)
    with tempfile.NamedTemporaryFile('w', suffix='.conf') as file:
        file.write(nova_conf)
        file.flush()
        files = [file.name]
        conf([], project='nova', default_config_files=files, default_config_dirs=[])
    plugins.install_nova_modules(conf)
    name = path.rpartition('.')[2]
    try:
        kind, found = plugins.FILTERS, plugin_adapter.classes_at(path, BaseHostFilter)
    except errors.ClassNotFound:
        kind, found = plugins.WEIGHERS, plugin_adapter.classes_at(path, BaseHostWeigher)
    return plugin_adapter.make(found[name], conf, kind.option)


def rejections(
    filter_: BaseHostFilter, hosts: HostTable, request: RequestSpec
) -> dict[str, Reason]:
    """Return the reason for each host that a filter rejects, by its name.

    The filter runs as it does in a decision. Raises errors.ExtensionFailed when it
    raises.
    """
    adapted = plugin_adapter.adapted(filter_)
    _, (step,) = pipeline.run_filters([adapted], hosts, request)
    return {host.host: reason for host, reason in step.reasons(request)}


def assert_passes(
    filter_: BaseHostFilter, hosts: HostTable, request: RequestSpec
) -> None:
    """Raise AssertionError unless a filter passes every host."""
    rejected = rejections(filter_, hosts, request)
    if rejected:
        raise AssertionError(f'{type(filter_).__name__} rejects {_said(rejected)}')


def assert_rejects(
    filter_: BaseHostFilter,
    hosts: HostTable,
    request: RequestSpec,
    code: str | None = None,
) -> None:
    """Raise AssertionError unless a filter rejects every host, with the code if one
    is given."""
    rejected = rejections(filter_, hosts, request)
    passed = [name for name in hosts.host.tolist() if name not in rejected]
    if passed:
        raise AssertionError(f'{type(filter_).__name__} passes {", ".join(passed)}')
    others = {n: reason for n, reason in rejected.items() if code != reason.code}
    if code is not None and others:
        raise AssertionError(f'not {code}: {_said(others)}')


def _said(reasons: Mapping[str, Reason]) -> str:
    return ', '.join(f'{n} ({why.code}: {why})' for n, why in reasons.items())


@dataclass(frozen=True)
class Weights:
    """What a weigher made of the hosts, by their names; ``ranked``: best one first."""

    raw: dict[str, float]
    normalized: dict[str, float]
    multipliers: dict[str, float]
    ranked: list[str]


def weigh(weigher: Weigher, hosts: HostTable, request: RequestSpec) -> Weights:
    """Weigh hosts as in a decision. Raises ValueError for fewer than two, as then no
    weigher runs, and errors.ExtensionFailed when the weigher raises."""
    if len(hosts) < 2:
        raise ValueError('no weigher runs for fewer than two hosts')
    adapted = plugin_adapter.adapted(weigher)
    weighed = pipeline.weigh([adapted], hosts, request)
    (found,) = weighed.weighings
    names = hosts.host.tolist()
    order = pipeline.descending(weighed.totals)
    return Weights(
        raw=dict(zip(names, found.raw.tolist(), strict=True)),
        normalized=dict(zip(names, found.normalized.tolist(), strict=True)),
        multipliers=dict(zip(names, found.multipliers.tolist(), strict=True)),
        ranked=[names[place] for place in order.tolist()],
    )

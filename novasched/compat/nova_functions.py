# SPDX-License-Identifier: Apache-2.0
"""Functions of nova.utils, nova.scheduler.utils and nova.context, and its words.

They are those that can be answered without nova's database and clients.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oslo_concurrency import lockutils

from novasched.objects import context, machine, numa, pci
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec

LOG = logging.getLogger(__name__)

synchronized = lockutils.synchronized_with_prefix('nova-')


def metadata_to_dict(
    metadata: Iterable[Mapping[str, Any]], include_deleted: bool = False
) -> dict[str, Any]:
    """Return rows of metadata as a dict."""
    rows = (row for row in metadata if include_deleted or not row.get('deleted'))
    return {row['key']: row['value'] for row in rows}


def instance_meta(instance: Any) -> dict[str, Any]:
    """Return the metadata of an instance, which has them as a dict or as rows."""
    found = instance['metadata']
    return found if isinstance(found, dict) else metadata_to_dict(found)


def request_is_rebuild(spec_obj: RequestSpec | None) -> bool:
    return spec_obj is not None and spec_obj.is_rebuild


def parse_options(
    opts: Iterable[str],
    sep: str = '=',
    converter: Callable[[str], Any] = str,
    name: str = '',
) -> list[tuple[str, Any]]:
    """Return names and values; what has no value or a wrong one is left out."""
    good: list[tuple[str, Any]] = []
    for item in opts:
        key, found, value = item.partition(sep)
        try:
            if key and found:
                good.append((key, converter(value)))
                continue
        except ValueError:
            pass
        LOG.warning('Ignoring the invalid elements of the option %s: %s', name, item)
    return good


def build_request_spec(
    image: Mapping[str, Any] | None, instances: list[Any], instance_type: Any = None
) -> dict[str, Any]:
    """Return the request for instances in the form of the time before RequestSpec."""
    first = instances[0]
    properties = {name: first[name] for name in first if name in first}
    return {
        'image': image or {},
        'instance_properties': properties,
        'instance_type': instance_type or properties.get('flavor'),
        'num_instances': len(instances),
    }


def get_admin_context(read_deleted: str = 'no') -> RequestContext:
    made = context.admin()
    made.read_deleted = read_deleted
    return made


def _words(name: str, values: Iterable[str], **others: str) -> tuple[str, type]:
    known = {v.upper(): v for v in values if v not in others.values()} | others
    return name, type(name, (), {**known, 'ALL': tuple(values)})


WORDS = dict(
    [
        _words('Architecture', machine.ARCHITECTURES, ARMV7='armv7l'),
        _words('CPUAllocationPolicy', numa.CPU_POLICIES),
        _words('CPUEmulatorThreadsPolicy', ('isolate', 'share')),
        _words('CPUThreadAllocationPolicy', numa.THREAD_POLICIES),
        _words('HVType', machine.HYPERVISOR_TYPES, VIRTUOZZO='vz'),
        _words('PCINUMAAffinityPolicy', pci.NUMA_POLICIES),
        _words('VMMode', machine.VM_MODES),
    ]
)
"""Words of nova.objects.fields, by the names of their classes."""

UTILS = instance_meta, metadata_to_dict
SCHEDULER_UTILS = build_request_spec, parse_options, request_is_rebuild
CONTEXT = (get_admin_context,)

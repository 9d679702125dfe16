# SPDX-License-Identifier: Apache-2.0
"""Image properties as the image service has them, with their older names."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

from novasched import errors

PRESENT_NAMES = {
    'architecture': 'hw_architecture',
    'owner_id': 'img_owner_id',
    'vmware_disktype': 'hw_disk_type',
    'vmware_image_version': 'img_version',
    'vmware_ostype': 'os_distro',
    'auto_disk_config': 'hw_auto_disk_config',
    'ipxe_boot': 'hw_ipxe_boot',
    'xenapi_device_id': 'hw_device_id',
    'xenapi_image_compression_level': 'img_compression_level',
    'vmware_linked_clone': 'img_linked_clone',
    'xenapi_use_agent': 'img_use_agent',
    'xenapi_skip_agent_inject_ssh': 'os_skip_agent_inject_ssh',
    'xenapi_skip_agent_inject_files_at_boot': 'os_skip_agent_inject_files_at_boot',
    'cache_in_nova': 'img_cache_in_nova',
    'vm_mode': 'hw_vm_mode',
    'bittorrent': 'img_bittorrent',
    'mappings': 'img_mappings',
    'block_device_mapping': 'img_block_device_mapping',
    'bdm_v2': 'img_bdm_v2',
    'root_device_name': 'img_root_device_name',
    'hypervisor_version_requires': 'img_hv_requested_version',
    'hypervisor_type': 'img_hv_type',
}
_JSON = ('img_mappings', 'img_block_device_mapping')


def with_present_names(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties under their present names; those win over older ones.

    Values are as they were, but for lists that the image service cannot keep:
    ``hw_numa_mem.N``, ``hw_numa_cpus.N``, ``trait:X=required`` and JSON texts.
    Raises errors.InvalidRequest when such a value is nonsense.
    """
    given = {name: value for name, value in properties.items() if value is not None}
    found = {
        **_adapter(given.get('vmware_adaptertype')),
        **{new: given[old] for old, new in PRESENT_NAMES.items() if old in given},
        **_numbered(given, 'hw_numa_mem', int),
        **_numbered(given, 'hw_numa_cpus', cpu_ids),
        **given,
    }
    for name in _JSON:
        if isinstance(found.get(name), str):
            found[name] = _checked(name, json.loads, found[name])
    traits = _required_traits(given)
    if traits:
        found['traits_required'] = traits
    return found


def cpu_ids(text: str) -> set[int]:
    """Return the numbers in text such as ``0-3,8,^2``. Raises ValueError."""
    wanted: set[int] = set()
    unwanted: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(','))):
        numbers = unwanted if part.startswith('^') else wanted
        first, _, last = part.removeprefix('^').partition('-')
        numbers.update(range(int(first), int(last or first) + 1))
    return wanted - unwanted


def _adapter(kind: Any) -> dict[str, str]:
    if kind is None:
        return {}
    if kind == 'ide':
        return {'hw_disk_bus': 'ide'}
    return {'hw_disk_bus': 'scsi', 'hw_scsi_model': kind}


def _numbered(
    given: Mapping[str, Any], name: str, read: Callable[[str], Any]
) -> dict[str, Any]:
    keys = (f'{name}.{number}' for number in itertools.count())
    present = itertools.takewhile(given.__contains__, keys)
    values = [_checked(key, read, str(given[key])) for key in present]
    return {name: values} if values else {}


def _required_traits(given: Mapping[str, Any]) -> list[str]:
    prefix = 'trait:'
    return [
        name.removeprefix(prefix)
        for name, value in given.items()
        if name.startswith(prefix) and value == 'required'
    ]


def _checked(name: str, read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise errors.InvalidRequest(f'ImageMetaProps.{name}: {error}') from error

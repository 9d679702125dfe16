# SPDX-License-Identifier: Apache-2.0
"""Images and their properties, as objects and as the image service has them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from novasched import errors, parsing
from novasched.objects import fields
from novasched.objects.base import (
    NovaObject,
    NovaObjectRegistry,
    NovaTimestampObject,
)
from novasched.objects.machine import (
    architecture,
    disk_bus,
    hypervisor_type,
    scsi_model,
    vif_model,
    vm_mode,
)


@NovaObjectRegistry.register
class ImageMetaProps(NovaObject):
    """The properties of an image that nova knows; the others are dropped."""

    VERSION = '1.44'

    hw_architecture: str = architecture()
    hw_emulation_architecture: str = architecture()
    hw_auto_disk_config: str = fields.string()
    hw_boot_menu: bool = fields.flexible_boolean()
    hw_cdrom_bus: str = disk_bus()
    hw_cpu_cores: int = fields.integer()
    hw_cpu_sockets: int = fields.integer()
    hw_cpu_max_cores: int = fields.integer()
    hw_cpu_max_sockets: int = fields.integer()
    hw_cpu_max_threads: int = fields.integer()
    hw_cpu_policy: str = fields.enum('dedicated', 'shared', 'mixed')
    hw_cpu_thread_policy: str = fields.enum('prefer', 'isolate', 'require')
    hw_cpu_realtime_mask: str = fields.string()
    hw_cpu_threads: int = fields.integer()
    hw_device_id: int = fields.integer()
    hw_disk_bus: str = disk_bus()
    hw_disk_type: str = fields.string()
    hw_floppy_bus: str = disk_bus()
    hw_firmware_type: str = fields.enum('uefi', 'bios')
    hw_firmware_stateless: bool = fields.flexible_boolean()
    hw_input_bus: str = fields.enum('usb', 'virtio')
    hw_ipxe_boot: bool = fields.flexible_boolean()
    hw_locked_memory: bool = fields.flexible_boolean()
    hw_machine_type: str = fields.string()
    hw_mem_encryption: bool = fields.flexible_boolean()
    hw_mem_encryption_model: str = fields.enum(
        'amd-sev', 'amd-sev-es', 'amd-sev-snp', 'intel-tdx'
    )
    hw_mem_page_size: str = fields.string()
    hw_numa_nodes: int = fields.integer()
    hw_numa_cpus: list[set[int]] = fields.integer_sets()
    hw_numa_mem: list[int] = fields.integers()
    hw_pci_numa_affinity_policy: str = fields.enum(
        'required', 'legacy', 'preferred', 'socket'
    )
    hw_pointer_model: str = fields.enum('usbtablet')
    hw_pmu: bool = fields.flexible_boolean()
    hw_qemu_guest_agent: bool = fields.flexible_boolean()
    hw_rescue_bus: str = disk_bus()
    hw_rescue_device: str = fields.enum('cdrom', 'disk', 'floppy', 'fs', 'lun')
    hw_rng_model: str = fields.enum('virtio')
    hw_time_hpet: bool = fields.flexible_boolean()
    hw_serial_port_count: int = fields.integer()
    hw_scsi_model: str = scsi_model()
    hw_video_model: str = fields.enum(
        'cirrus', 'qxl', 'vga', 'vmvga', 'xen', 'virtio', 'gop', 'none', 'bochs'
    )
    hw_video_ram: int = fields.integer()
    hw_vif_model: str = vif_model()
    hw_viommu_model: str = fields.enum('intel', 'smmuv3', 'virtio', 'auto')
    hw_vm_mode: str = vm_mode()
    hw_watchdog_action: str = fields.enum(
        'none', 'pause', 'poweroff', 'reset', 'disabled'
    )
    hw_vif_multiqueue_enabled: bool = fields.flexible_boolean()
    hw_tpm_model: str = fields.enum('tpm-tis', 'tpm-crb')
    hw_tpm_version: str = fields.enum('1.2', '2.0')
    hw_ephemeral_encryption: bool = fields.flexible_boolean()
    hw_ephemeral_encryption_format: str = fields.enum('plain', 'luks', 'luksv2')
    hw_ephemeral_encryption_secret_uuid: str = fields.uuid()
    hw_virtio_packed_ring: bool = fields.flexible_boolean()
    hw_maxphysaddr_mode: str = fields.enum('passthrough', 'emulate')
    hw_maxphysaddr_bits: int = fields.integer()
    hw_sound_model: str = fields.enum(
        'sb16', 'es1370', 'pcspk', 'ac97', 'ich6', 'ich9', 'usb', 'virtio'
    )
    hw_usb_model: str = fields.enum('none', 'nec-xhci', 'qemu-xhci')
    hw_redirected_usb_ports: int = fields.integer()
    img_bittorrent: bool = fields.flexible_boolean()
    img_bdm_v2: bool = fields.flexible_boolean()
    img_block_device_mapping: list[dict[str, str | None]] = (
        fields.nullable_string_dicts()
    )
    img_cache_in_nova: bool = fields.flexible_boolean()
    img_compression_level: int = fields.integer()
    img_hv_requested_version: str = fields.version_predicate()
    img_hv_type: str = hypervisor_type()
    img_config_drive: str = fields.enum('optional', 'mandatory')
    img_linked_clone: bool = fields.flexible_boolean()
    img_mappings: list[dict[str, str | None]] = fields.nullable_string_dicts()
    img_owner_id: str = fields.string()
    img_root_device_name: str = fields.string()
    img_use_agent: bool = fields.flexible_boolean()
    img_version: int = fields.integer()
    img_signature: str = fields.string()
    img_signature_hash_method: str = fields.enum(
        'SHA-224', 'SHA-256', 'SHA-384', 'SHA-512'
    )
    img_signature_certificate_uuid: str = fields.uuid()
    img_signature_key_type: str = fields.enum(
        'DSA',
        'ECC_SECP384R1',
        'ECC_SECP521R1',
        'ECC_SECT409K1',
        'ECC_SECT409R1',
        'ECC_SECT571K1',
        'ECC_SECT571R1',
        'RSA-PSS',
    )
    img_hide_hypervisor_id: bool = fields.flexible_boolean()
    os_admin_user: str = fields.string()
    os_command_line: str = fields.string()
    os_distro: str = fields.string()
    os_require_quiesce: bool = fields.flexible_boolean()
    os_secure_boot: str = fields.enum('required', 'disabled', 'optional')
    os_skip_agent_inject_files_at_boot: bool = fields.flexible_boolean()
    os_skip_agent_inject_ssh: bool = fields.flexible_boolean()
    os_type: str = fields.field(fields.FoldedEnum(('linux', 'windows')))
    traits_required: list[str] = fields.strings()

    get = NovaObject.if_set
    to_dict = NovaObject.set_fields
    NUMA_NODES_MAX: ClassVar = 128

    @classmethod
    def from_dict(cls, properties: Mapping[str, Any]) -> ImageMetaProps:
        """Read the properties of an image as the image service has them.

        Older names are read as the present ones; unknown ones and those without
        a value are dropped. Raises errors.InvalidRequest for a value that does
        not fit.
        """
        known = with_present_names(properties)
        return cls.made_of(**{k: v for k, v in known.items() if k in cls.fields})


@NovaObjectRegistry.register
class ImageMeta(NovaTimestampObject):
    """An image; size and virtual_size are in bytes, min_disk in GiB, min_ram in MiB.

    Instances that boot from a volume have one without an id.
    """

    VERSION = '1.8'

    id: str = fields.uuid()
    name: str = fields.string()
    status: str = fields.string()
    visibility: str = fields.string()
    protected: bool = fields.flexible_boolean()
    checksum: str = fields.string()
    owner: str = fields.string()
    size: int = fields.integer()
    virtual_size: int = fields.integer()
    container_format: str = fields.string()
    disk_format: str = fields.string()
    tags: list[str] = fields.strings()
    direct_url: str = fields.string()
    min_ram: int = fields.integer()
    min_disk: int = fields.integer()
    properties: ImageMetaProps = fields.object_of('ImageMetaProps')

    @classmethod
    def from_dict(cls, image: Mapping[str, Any]) -> ImageMeta:
        """Read an image as the image service has it; unknown keys are dropped.

        Raises errors.InvalidRequest for a value that does not fit.
        """
        values = {k: v for k, v in image.items() if k in cls.fields}
        for name, empty in _EMPTY.items():
            if name in values and values[name] is None:
                values[name] = empty
        properties = image.get('properties')
        if not isinstance(properties, ImageMetaProps):
            properties = ImageMetaProps.from_dict(_mapping(properties))
        return cls.made_of(**{**values, 'properties': properties})


_EMPTY = {
    'name': '',
    'checksum': '',
    'owner': '',
    'container_format': '',
    'disk_format': '',
    'size': 0,
    'virtual_size': 0,
}


def _mapping(properties: Any) -> Mapping[str, Any]:
    if properties is None:
        return {}
    if not isinstance(properties, Mapping):
        raise errors.InvalidRequest('ImageMeta.properties: a dict is required')
    return properties


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
    named = parsing.NamedCPUs()
    found = {
        **_adapter(given.get('vmware_adaptertype')),
        **{new: given[old] for old, new in PRESENT_NAMES.items() if old in given},
        **_numbered(given, 'hw_numa_mem', int),
        **_numbered(given, 'hw_numa_cpus', functools.partial(cpu_ids, named=named)),
        **given,
    }
    for name in _JSON:
        if isinstance(found.get(name), str):
            found[name] = _checked(name, parsing.parse_json, found[name])
    traits = _required_traits(given)
    if traits:
        found['traits_required'] = traits
    return found


def cpu_ids(text: str, named: parsing.NamedCPUs | None = None) -> set[int]:
    """Return the numbers in text such as ``0-3,8,^2``. Raises ValueError.

    ``named`` counts the numbers of several texts.
    """
    wanted, unwanted = (named or parsing.NamedCPUs()).read(text, _ends)
    return wanted - unwanted


def _ends(part: str) -> tuple[int, int]:
    first, _, last = part.removeprefix('^').partition('-')
    return int(first), int(last or first)


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

# SPDX-License-Identifier: Apache-2.0
"""Filter hosts by what the image needs: architecture, hypervisor, vm mode."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from oslo_config import cfg
from oslo_utils import versionutils

from novasched.objects import machine
from novasched.objects.request_spec import RequestSpec
from novasched.parsing import parse_json
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason

OPTS = {
    'filter_scheduler': [
        cfg.StrOpt(
            'image_properties_default_architecture',
            choices=machine.ARCHITECTURES,
            help='Architecture of images that do not say theirs, for '
            'ImagePropertiesFilter. Unset: such images run anywhere.',
        )
    ]
}


def version_text(version: int) -> str:
    """Return a hypervisor version as text: 6002000 is 6.2.0."""
    digits = []
    while version > 0:
        version, digit = divmod(version, 1000)
        digits.append(str(digit))
    return '.'.join(reversed(digits))


def address_bits(cpu_info: str | None) -> int:
    """Return the physical address width of a host's CPUs; 0 if unknown."""
    try:
        return int(parse_json(cpu_info or '')['maxphysaddr']['bits'])
    except (ValueError, TypeError, KeyError, OverflowError):
        return 0


class ImagePropertiesFilter(ColumnFilter):
    """Pass hosts that support the image's architecture, hypervisor and vm mode.

    All the properties that the image names must occur in one supported instance
    type of the host. Version and address width are looked at only when the image
    names one of the three. Nova: scheduler/filters/image_props_filter.py.
    """

    reads_aggregates = False
    codes = (
        Code.IMAGE_NOT_SUPPORTED,
        Code.HYPERVISOR_VERSION_DIFFERS,
        Code.ADDRESS_TOO_NARROW,
    )
    explained_by = ('supported_instances', 'hypervisor_version')
    RUN_ON_REBUILD = True
    run_filter_once_per_request = True

    def __init__(self, default_architecture: str | None = None) -> None:
        self.default_architecture = default_architecture

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        return cls(conf.filter_scheduler.image_properties_default_architecture)

    def _wanted(self, request: RequestSpec) -> set[str]:
        image = request.image_properties
        architecture = image.get('hw_architecture', self.default_architecture)
        asked = (architecture, image.get('img_hv_type'), image.get('hw_vm_mode'))
        return {value for value in asked if value}

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        wanted = self._wanted(request)
        if not wanted:
            return np.ones(len(hosts), bool)
        image = request.image_properties
        passes: Mask = hosts.supported_instances.map(
            lambda supported: any(wanted <= set(one) for one in supported or ())
        )
        predicate = image.get('img_hv_requested_version')
        if predicate:
            passes &= _versions_satisfy(hosts, predicate)
        bits = image.get('hw_maxphysaddr_bits')
        if bits is not None:
            passes &= hosts.cpu_info.map(
                lambda info: not (known := address_bits(info)) or known >= bits
            )
        return passes

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        wanted = ', '.join(sorted(self._wanted(request)))
        if not host.supported_instances:
            text = f'image needs {wanted}, host advertises no supported instances'
            return Reason(Code.IMAGE_NOT_SUPPORTED, text)
        if not any(self._wanted(request) <= set(i) for i in host.supported_instances):
            text = f'image needs {wanted}, in no supported instance type of the host'
            return Reason(Code.IMAGE_NOT_SUPPORTED, text)
        image = request.image_properties
        predicate = image.get('img_hv_requested_version')
        if predicate and not _versions_satisfy(host.as_table(), predicate)[0]:
            version = version_text(host.hypervisor_version or 0)
            text = f'image needs hypervisor version {predicate}, host has {version}'
            return Reason(Code.HYPERVISOR_VERSION_DIFFERS, text)
        return Reason(
            Code.ADDRESS_TOO_NARROW,
            f'image needs {image.get("hw_maxphysaddr_bits")} bits of physical '
            f'address, host has {address_bits(host.cpu_info)}',
        )


def _versions_satisfy(hosts: HostTable, predicate: str) -> Mask:
    """Hosts of unknown version pass."""
    satisfied = versionutils.VersionPredicate(predicate).satisfied_by
    distinct, inverse = np.unique(
        np.nan_to_num(hosts.hypervisor_version), return_inverse=True
    )
    return np.array(
        [not v or satisfied(version_text(int(v))) for v in distinct.tolist()], bool
    )[inverse]

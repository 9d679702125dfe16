# SPDX-License-Identifier: Apache-2.0
"""PCI aliases: the devices that a flavor asks for by name."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Self

from oslo_config import cfg

from novasched import errors
from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched.objects.request_spec import RequestSpec
from novasched.parsing import parse_json, whole_number

OPTS: dict[str, list[cfg.Opt]] = {
    'pci': [
        cfg.MultiStrOpt(
            'alias',
            default=[],
            help='A name for devices that flavors ask for, as JSON: name, vendor_id, '
            'product_id, device_type, numa_policy. Of several with one name, any '
            'serves.',
        )
    ],
}

WANTED = 'pci_passthrough:alias'
MOST_DEVICES = 2**31 - 1
"""Devices that a request may ask for; as many as a pool may have."""
POLICY = 'pci_numa_affinity_policy'
_NO_MATCH = {'name', 'device_type', 'numa_policy', 'capability_type'}


class PciAliases:
    """The aliases of a configuration: alternatives by name."""

    def __init__(self, alternatives: Iterable[Mapping[str, Any]] = ()) -> None:
        self._by_name: dict[str, list[Mapping[str, Any]]] = {}
        for each in alternatives:
            self._by_name.setdefault(str(each.get('name')), []).append(each)

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Read [pci] alias. Raises errors.OptionError for what is no JSON object."""
        try:
            return cls([dict(parse_json(text)) for text in conf.pci.alias])
        except (ValueError, TypeError) as problem:
            raise errors.OptionError(
                '[pci] alias', str(problem), 'Write each as one JSON object.'
            ) from problem

    def requests_of(self, request: RequestSpec) -> InstancePCIRequests | None:
        """Return the devices that a request is for; None for none.

        Raises errors.InvalidDemand for an unknown alias.
        """
        wanted = request.extra_specs.get(WANTED)
        if not wanted:
            return None
        policy = request.extra_specs.get(f'hw:{POLICY}')
        policy = policy or request.image_properties.get(f'hw_{POLICY}')
        listed = []
        for part in wanted.split(','):
            name, _, count = part.strip().partition(':')
            found = self._by_name.get(name)
            if not found:
                raise errors.InvalidDemand(f'PCI alias {name}:{count} is not defined')
            devices = _devices(name, count)
            listed.append(
                InstancePCIRequest.made_of(
                    count=devices,
                    alias_name=name,
                    spec=[_spec(each) for each in found],
                    numa_policy=policy or found[0].get('numa_policy') or 'legacy',
                    request_id=str(uuid.uuid4()),
                )
            )
        made = InstancePCIRequests(requests=listed)
        made.obj_reset_changes(recursive=True)
        return made


def _devices(name: str, count: str) -> int:
    try:
        return whole_number(count, least=1, most=MOST_DEVICES)
    except ValueError as problem:
        words = f'PCI alias {name}:{count:.200} is not defined: {problem}'
        raise errors.InvalidDemand(words) from problem


def _spec(alternative: Mapping[str, Any]) -> dict[str, str | None]:
    kept: dict[str, str | None] = {
        key: str(value) for key, value in alternative.items() if key not in _NO_MATCH
    }
    if 'device_type' in alternative:
        kept['dev_type'] = str(alternative['device_type'])
    return kept

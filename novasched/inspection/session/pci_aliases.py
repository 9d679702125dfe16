# SPDX-License-Identifier: Apache-2.0
"""PCI aliases: the devices that a flavor asks for by name."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Self

import os_resource_classes as classes  # type: ignore[import-untyped]
import os_traits  # type: ignore[import-untyped]
from oslo_config import cfg
from oslo_utils import strutils

from novasched import errors
from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched.objects.request_spec import RequestGroup, RequestSpec
from novasched.parsing import parse_json, whole_number

OPTS: dict[str, list[cfg.Opt]] = {
    'pci': [
        cfg.MultiStrOpt(
            'alias',
            default=[],
            help='A name for devices that flavors ask for, as JSON: name, vendor_id, '
            'product_id, device_type, numa_policy, live_migratable; where placement '
            'tracks devices, also resource_class and traits. Of several with one name, '
            'any serves.',
        )
    ],
    'filter_scheduler': [
        cfg.BoolOpt(
            'pci_in_placement',
            default=False,
            help="""
Ask placement for the devices of PCI aliases.

Nova's API and conductor add a group of resources to the request for each device. Dry
runs make requests in the same way, so give novasched the value that nova has. All
computes must have ``[pci] report_in_placement``.
""",
        )
    ],
}

WANTED = 'pci_passthrough:alias'
MOST_DEVICES = 2**31 - 1
"""Devices that a request may ask for; as many as a pool may have."""
MOST_TRACKED = 2**10
"""Devices that a request may ask placement for: each is a group of its query."""
POLICY = 'pci_numa_affinity_policy'
STANDARD_TRAITS = frozenset(os_traits.get_traits())
_NO_MATCH = {'name', 'device_type', 'numa_policy', 'capability_type'}


class PciAliases:
    """The aliases of a configuration: alternatives by name."""

    def __init__(
        self, alternatives: Iterable[Mapping[str, Any]] = (), in_placement: bool = False
    ) -> None:
        self._in_placement = in_placement
        self._by_name: dict[str, list[Mapping[str, Any]]] = {}
        for each in alternatives:
            self._by_name.setdefault(str(each.get('name')), []).append(each)

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Read [pci] alias and [filter_scheduler] pci_in_placement.

        Raises errors.OptionError for an alias that is no JSON object.
        """
        in_placement = conf.filter_scheduler.pci_in_placement
        try:
            found = [dict(parse_json(text)) for text in conf.pci.alias]
            return cls(found, in_placement)
        except (ValueError, TypeError) as problem:
            raise errors.OptionError(
                '[pci] alias', str(problem), 'Write each as one JSON object.'
            ) from problem

    def requests_of(self, request: RequestSpec) -> InstancePCIRequests:
        """Return the devices that a flavor asks for, and the devices of ports.

        Raises errors.InvalidDemand for aliases that nova's API refuses.
        """
        kept = request.if_set('pci_requests')
        listed = [each for each in kept.requests if not each.alias_name] if kept else []
        if wanted := request.extra_specs.get(WANTED):
            self._check()
            policy = request.extra_specs.get(f'hw:{POLICY}')
            policy = policy or request.image_properties.get(f'hw_{POLICY}')
            parts = wanted.split(',')
            listed = [*(self._request(part, policy) for part in parts), *listed]
        made = InstancePCIRequests(requests=listed)
        made.obj_reset_changes(recursive=True)
        return made

    def groups_of(self, devices: InstancePCIRequests | None) -> list[RequestGroup]:
        """Return a group for each device of an alias that placement tracks.

        Nova: objects/request_spec.py, generate_request_groups_from_pci_requests.
        Raises errors.InvalidDemand.
        """
        if not self._in_placement or devices is None:
            return []
        listed = [each for each in devices.requests if each.alias_name]
        if sum(each.count for each in listed) > MOST_TRACKED:
            words = f'placement may be asked for {MOST_TRACKED} devices at most'
            raise errors.InvalidDemand(words)
        return [group for each in listed for group in _groups(each)]

    def _request(self, part: str, policy: str | None) -> InstancePCIRequest:
        name, _, count = part.partition(':')
        name = name.strip()
        found = self._by_name.get(name)
        if not found:
            raise errors.InvalidDemand(f'PCI alias {name} is not defined')
        return InstancePCIRequest.made_of(
            count=_devices(name, count),
            alias_name=name,
            spec=[_spec(each) for each in found],
            numa_policy=policy or found[0].get('numa_policy') or 'legacy',
            request_id=str(uuid.uuid4()),
        )

    def _check(self) -> None:
        """Raise errors.InvalidDemand where any alias is unfit, in nova's words."""
        vague = [
            name
            for name, found in self._by_name.items()
            if not all(map(self._is_precise, found))
        ]
        if vague:
            also = ' or resource_class field set' if self._in_placement else ''
            raise errors.InvalidDemand(
                f'The PCI alias(es) {",".join(vague)} does not have vendor_id and '
                f'product_id fields set{also}.'
            )
        several = [name for name, found in self._by_name.items() if len(found) > 1]
        if several and self._in_placement:
            raise errors.InvalidDemand(
                f'The PCI alias(es) {",".join(several)} have multiple specs but '
                '[filter_scheduler]pci_in_placement is True. The PCI in Placement '
                'feature only supports one spec per alias. You can assign the same '
                'resource_class to multiple [pci]device_spec matchers to allow using '
                'different devices for the same alias.'
            )

    def _is_precise(self, alternative: Mapping[str, Any]) -> bool:
        by_class = self._in_placement and bool(alternative.get('resource_class'))
        return by_class or {'vendor_id', 'product_id'} <= alternative.keys()


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
    if 'live_migratable' in kept:
        try:
            may = strutils.bool_from_string(kept['live_migratable'], strict=True)
        except ValueError as problem:
            words = f'Invalid PCI alias definition: {problem}'
            raise errors.InvalidDemand(words) from problem
        kept['live_migratable'] = str(may).lower()
    return kept


def _groups(asked: InstancePCIRequest) -> list[RequestGroup]:
    if len(asked.spec) != 1:
        raise errors.InvalidDemand(
            'PCI tracking in placement does not support multiple specs per PCI request'
        )
    spec = asked.spec[0]
    traits = spec.get('traits')
    return [
        RequestGroup.made_of(
            requester_id=f'{asked.request_id}-{number}',
            resources={_class_of(spec): 1},
            required_traits={_trait(each) for each in traits.split(',')}
            if traits
            else set(),
        )
        for number in range(asked.count)
    ]


def _class_of(spec: Mapping[str, str | None]) -> str:
    """Return the class that computes give to inventories of such devices."""
    named = spec.get('resource_class')
    name = named or f'PCI_{spec.get("vendor_id")}_{spec.get("product_id")}'
    name = name.upper()
    is_class = name in classes.STANDARDS or name.startswith(classes.CUSTOM_NAMESPACE)
    return name if is_class else str(classes.normalize_name(name))


def _trait(name: str) -> str:
    if name in STANDARD_TRAITS:
        return name
    custom = name.upper()
    is_custom = custom.startswith(os_traits.CUSTOM_NAMESPACE)
    return custom if is_custom else str(os_traits.normalize_name(name))

# SPDX-License-Identifier: Apache-2.0
"""The PCI devices that a flavor asks for by their alias."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import os_resource_classes  # type: ignore[import-untyped]
import os_traits  # type: ignore[import-untyped]
from oslo_config import cfg

from novasched import errors
from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched.objects.request_spec import RequestGroup, RequestSpec

OPTS: dict[str, list[cfg.Opt]] = {
    'pci': [
        cfg.MultiStrOpt(
            'alias',
            default=[],
            help='A name for devices that flavors ask for, as JSON: name, vendor_id, '
            'product_id, device_type, numa_policy, resource_class, traits. Of several '
            'with one name, any serves.',
        )
    ],
    'filter_scheduler': [
        cfg.BoolOpt(
            'pci_in_placement',
            default=False,
            help='Whether placement is asked for the devices of aliases, too: it must '
            'know the devices of all hosts.',
        )
    ],
}

WANTED = 'pci_passthrough:alias'
POLICY = 'hw:pci_numa_affinity_policy'
_TRAITS = frozenset(os_traits.get_traits())
_NO_MATCH = {'name', 'device_type', 'numa_policy', 'capability_type'}


class Aliases:
    """The aliases of a configuration: alternatives by name."""

    def __init__(
        self, alternatives: Iterable[Mapping[str, Any]] = (), in_placement: bool = False
    ) -> None:
        self._by_name: dict[str, list[Mapping[str, Any]]] = {}
        self._in_placement = in_placement
        for each in alternatives:
            self._by_name.setdefault(str(each.get('name')), []).append(each)

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Read [pci] alias. Raises errors.OptionError for what is no JSON object."""
        try:
            found = [json.loads(text) for text in conf.pci.alias]
            parsed = [dict(each) for each in found]
        except (ValueError, TypeError) as problem:
            raise errors.OptionError(
                '[pci] alias', str(problem), 'Write each as one JSON object.'
            ) from problem
        return cls(parsed, conf.filter_scheduler.pci_in_placement)

    def requests_of(self, request: RequestSpec) -> InstancePCIRequests | None:
        """Return the devices that a request is for; None for none.

        Raises errors.InvalidDemand for an alias that nobody knows.
        """
        wanted = request.extra_specs.get(WANTED)
        if not wanted:
            return None
        listed = [
            self._request(request, *part.strip().partition(':')[::2])
            for part in wanted.split(',')
        ]
        made = InstancePCIRequests(requests=listed)
        made.obj_reset_changes(recursive=True)
        return made

    def _request(
        self, request: RequestSpec, name: str, count: str
    ) -> InstancePCIRequest:
        alternatives = self._by_name.get(name)
        if not alternatives or not count.isdigit() or not int(count):
            raise errors.InvalidDemand(f'PCI alias {name}:{count} is not defined')
        policy = request.extra_specs.get(POLICY) or request.image_properties.get(
            'hw_pci_numa_affinity_policy'
        )
        return InstancePCIRequest(
            count=int(count),
            alias_name=name,
            spec=[_spec(each) for each in alternatives],
            numa_policy=policy or alternatives[0].get('numa_policy') or 'legacy',
            request_id=str(uuid.uuid4()),
        )

    def groups_of(self, devices: InstancePCIRequests | None) -> list[RequestGroup]:
        """Return a group per device, where placement is asked for devices."""
        if devices is None or not self._in_placement:
            return []
        return [
            group
            for request in devices.requests
            if request.alias_name
            for group in _groups(request)
        ]


def _spec(alternative: Mapping[str, Any]) -> dict[str, str | None]:
    kept = {k: str(v) for k, v in alternative.items() if k not in _NO_MATCH}
    if 'device_type' in alternative:
        kept['dev_type'] = str(alternative['device_type'])
    return dict(kept)


def _groups(request: InstancePCIRequest) -> Sequence[RequestGroup]:
    if len(request.spec) != 1:
        raise errors.InvalidDemand(
            f'PCI alias {request.alias_name} has several alternatives, placement '
            'can be asked for one only'
        )
    (spec,) = request.spec
    traits = filter(None, (spec.get('traits') or '').split(','))
    return [
        RequestGroup(
            requester_id=f'{request.request_id}-{number}',
            resources={resource_class(spec): 1},
            required_traits={_trait(trait.strip()) for trait in traits},
        )
        for number in range(request.count)
    ]


def resource_class(spec: Mapping[str, str | None]) -> str:
    """Return the resource class of devices, as computes report them."""
    named = spec.get('resource_class')
    if named:
        standard = named.upper() in os_resource_classes.STANDARDS
        return named.upper() if standard else _custom(named)
    return _custom(f'pci_{spec.get("vendor_id")}_{spec.get("product_id")}')


def _trait(name: str) -> str:
    return name.upper() if name.upper() in _TRAITS else _custom(name)


def _custom(name: str) -> str:
    upper = ''.join(c if c.isalnum() else '_' for c in name.upper())
    return upper if upper.startswith('CUSTOM_') else f'CUSTOM_{upper}'

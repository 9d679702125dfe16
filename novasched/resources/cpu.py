# SPDX-License-Identifier: Apache-2.0
"""CPU policies of flavors and images, and masks of guest CPUs.

A dedicated CPU is a PCPU of placement, a shared one a VCPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import os_resource_classes as classes  # type: ignore[import-untyped]
import os_traits  # type: ignore[import-untyped]
from oslo_utils import strutils

from novasched import errors, parsing
from novasched.objects.request_spec import RequestSpec
from novasched.resources.features import FeatureDemand
from novasched.resources.query import NONE

_SOURCE = 'flavor extra specs'
_POLICIES = ('dedicated', 'shared', 'mixed')
_THREAD_POLICIES = ('prefer', 'isolate', 'require')
_EMULATOR_POLICIES = ('share', 'isolate')
_OVERRULED = {'mixed': ('dedicated',), 'shared': ('mixed', 'dedicated')}
"""By policy of the flavor: what the image must not ask for."""


@dataclass(frozen=True)
class CPUs:
    """The demand for CPUs; ``are_dedicated``: all of them."""

    demand: FeatureDemand
    are_dedicated: bool


def cpus(request: RequestSpec) -> CPUs:
    """Return the demands of the CPU and thread policies.

    Raises errors.InvalidDemand, or a subclass, for unknown policies and for masks that
    do not fit, or if flavor and image differ.
    """
    policy = cpu_policy(request)
    threads = thread_policy(request)
    emulator = emulator_policy(request)
    isolated = 1 if emulator == 'isolate' else 0
    amounts = {}
    if policy == 'dedicated':
        amounts[classes.PCPU] = request.vcpus + isolated
    elif policy == 'mixed':
        by_mask, by_time = masked(request), realtime(request, emulator)
        dedicated = len(by_mask or by_time)
        amounts[classes.PCPU] = dedicated + isolated
        amounts[classes.VCPU] = request.vcpus - dedicated
    trait = frozenset({os_traits.HW_CPU_HYPERTHREADING})
    return CPUs(
        FeatureDemand(
            resources=amounts,
            required=trait if threads == 'require' else NONE,
            forbidden=trait if threads == 'isolate' else NONE,
        ),
        are_dedicated=policy == 'dedicated',
    )


def cpu_policy(request: RequestSpec) -> str | None:
    """Return the CPU policy that flavor and image agree on; raises as cpus()."""
    wanted = request.extra_specs.get('hw:cpu_policy')
    of_image: str | None = request.image_properties.get('hw_cpu_policy')
    if not wanted:
        return of_image
    what = f"CPU policy requested from '{_SOURCE}'"
    error = errors.InvalidCPUAllocationPolicy
    _check(_POLICIES, wanted, error, what, source=_SOURCE)
    if of_image in _OVERRULED.get(wanted, ()):
        raise errors.ImageCPUPinningForbidden(
            "Image property 'hw_cpu_policy' is not permitted to override CPU pinning "
            'policy set against the flavor'
        )
    return wanted


def thread_policy(request: RequestSpec) -> str | None:
    """Return the thread policy, of the flavor or else the image; raises as cpus()."""
    wanted = request.extra_specs.get('hw:cpu_thread_policy')
    of_image: str | None = request.image_properties.get('hw_cpu_thread_policy')
    if wanted is None:
        return of_image
    if wanted:
        what = f"CPU thread policy requested from '{_SOURCE}'"
        error = errors.InvalidCPUThreadAllocationPolicy
        _check(_THREAD_POLICIES, wanted, error, what, source=_SOURCE)
    if wanted != 'prefer' and of_image not in (None, wanted):
        raise errors.ImageCPUThreadPolicyForbidden(
            "Image property 'hw_cpu_thread_policy' is not permitted to override CPU "
            'thread pinning policy set against the flavor'
        )
    return wanted


def emulator_policy(request: RequestSpec) -> str | None:
    """Return the policy of the emulator's threads; raises as cpus()."""
    wanted = request.extra_specs.get('hw:emulator_threads_policy')
    if wanted:
        what = 'CPU emulator threads option requested'
        _check(_EMULATOR_POLICIES, wanted, errors.InvalidEmulatorThreadsPolicy, what)
    return wanted


def _check(
    available: tuple[str, ...],
    given: str,
    error: type[errors.InvalidDemand],
    what: str,
    **details: str,
) -> None:
    """Raise the error, in nova's words, if a value is not available."""
    if given not in available:
        text = f"{what} is invalid, given: '{given}', available: '{available}'."
        raise error(text, requested=given, available=str(available), **details)


def masked(request: RequestSpec) -> set[int]:
    """Return the guest CPUs of the dedicated mask; raises as cpus()."""
    mask = request.extra_specs.get('hw:cpu_dedicated_mask')
    if not mask:
        return set()
    everyone = every_cpu(request.vcpus)
    dedicated = cpus_in(mask, request.vcpus)
    if not dedicated or not everyone - dedicated:
        raise errors.InvalidMixedInstanceDedicatedMask(
            'Mixed instance must have at least 1 pinned vCPU and 1 unpinned vCPU. See '
            "'hw:cpu_dedicated_mask'."
        )
    if not dedicated <= everyone:
        raise errors.InvalidMixedInstanceDedicatedMask(
            'Mixed instance dedicated vCPU(s) mask is not a subset of vCPUs in the '
            'flavor. See "hw:cpu_dedicated_mask"'
        )
    return dedicated


def realtime(request: RequestSpec, emulator: str | None) -> set[int]:
    """Return the guest CPUs that are realtime, if any; raises as cpus()."""
    if not strutils.bool_from_string(request.extra_specs.get('hw:cpu_realtime')):
        return set()
    mask: str | None = request.image_properties.get('hw_cpu_realtime_mask')
    mask = mask or request.extra_specs.get('hw:cpu_realtime_mask')
    everyone = every_cpu(request.vcpus)
    found = cpus_in(mask, request.vcpus) if mask else everyone
    if not found or (not emulator and found == everyone):
        raise errors.RealtimeMaskNotFoundOrInvalid(
            'Use of realtime CPUs requires either one or more non-realtime CPU(s) or '
            'offloaded emulator threads.'
        )
    if not found <= everyone:
        raise errors.RealtimeMaskNotFoundOrInvalid(
            'Realtime policy vCPU(s) mask is configured with RT vCPUs that are not a '
            'subset of the vCPUs in the flavor. See hw:cpu_realtime_mask or '
            'hw_cpu_realtime_mask'
        )
    return found


def every_cpu(count: int) -> set[int]:
    """Return the numbers of all CPUs of a guest. Raises errors.InvalidDemand."""
    try:
        return parsing.every_cpu(count)
    except ValueError as problem:
        words = f'CPUs of a guest with {count} vCPUs cannot be named: {problem}'
        raise errors.InvalidDemand(words) from problem


def cpus_in(mask: str, count: int, named: parsing.NamedCPUs | None = None) -> set[int]:
    """Return the numbers that a mask names; those excluded count for nothing.

    A mask that begins with an exclusion means all of ``count`` CPUs but those.
    ``named`` counts the CPUs of several masks of one guest. Raises errors.InvalidDemand
    for text that is no mask.
    """
    included = every_cpu(count) if mask.startswith('^') else set()
    try:
        more, excluded = (named or parsing.NamedCPUs()).read(mask, _ends)
    except ValueError as problem:
        raise errors.InvalidDemand(f'Invalid CPU mask: {problem}') from problem
    return (included | more) - excluded


def _ends(part: str) -> tuple[int, int]:
    kind = 'exclusion' if part.startswith('^') else 'inclusion'
    texts = part.removeprefix('^').split('-')
    if len(texts) > 1:
        kind = 'range'
    try:
        first, last = int(texts[0]), int(texts[-1])
    except ValueError:
        first, last = 1, 0
    if len(texts) > 2 or not 0 <= first <= last:
        raise errors.InvalidDemand(f"Invalid {kind} expression '{part}'")
    if last >= parsing.MOST_CPUS:
        raise errors.InvalidDemand(
            f"Invalid {kind} expression '{part}': CPUs are numbered below "
            f'{parsing.MOST_CPUS}'
        )
    return first, last

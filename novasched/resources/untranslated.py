# SPDX-License-Identifier: Apache-2.0
"""What flavors and images may ask of placement and is not translated yet."""

from __future__ import annotations

from collections.abc import Iterator

from novasched.objects.request_spec import RequestSpec

# By extra spec; the image property is the same with hw_ or os_ for the scope.
_WISHES = (
    'hw:cpu_policy',
    'hw:cpu_thread_policy',
    'hw:emulator_threads_policy',
    'hw:ephemeral_encryption',
    'hw:maxphysaddr_mode',
    'hw:mem_encryption',
    'hw:pci_numa_affinity_policy',
    'hw:pmem',
    'hw:sound_model',
    'hw:tpm_version',
    'hw:virtio_packed_ring',
    'os:secure_boot',
)
_HARMLESS = frozenset({'shared', 'false', 'no', 'disabled', 'prefer', 'share'})


def warnings(request: RequestSpec) -> tuple[str, ...]:
    """Return a warning if the query leaves out something that was asked for."""
    left_out = sorted(set(_left_out(request)))
    if not left_out:
        return ()
    return (
        f'The query to placement leaves out {", ".join(left_out)}: the host may lack '
        'it, and CPUs are claimed as VCPU.',
    )


def _left_out(request: RequestSpec) -> Iterator[str]:
    image = request.image_properties
    for name in _WISHES:
        if _asks(request.extra_specs.get(name)):
            yield name
        prop = name.replace(':', '_')
        if prop in image.fields and _asks(image.get(prop)):
            yield prop


def _asks(value: object) -> bool:
    return bool(value) and str(value).lower() not in _HARMLESS

# SPDX-License-Identifier: Apache-2.0
"""Accelerators of a device profile."""

from __future__ import annotations

import os_traits  # type: ignore[import-untyped]

from novasched.objects.request_spec import RequestSpec
from novasched.resources.prefilters.requirements import Facts, Requirements


def accelerators_filter(request: RequestSpec, facts: Facts) -> Requirements | None:
    """Ask for computes that can attach accelerators, if the flavor wants some."""
    if not request.extra_specs.get('accel:device_profile'):
        return None
    trait = os_traits.COMPUTE_ACCELERATORS
    return Requirements(
        root_required=frozenset({trait}),
        notes=(f'accelerators_filter request filter added required trait {trait}',),
    )

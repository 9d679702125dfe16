# SPDX-License-Identifier: Apache-2.0
"""Disabled compute services."""

from __future__ import annotations

import os_traits  # type: ignore[import-untyped]

from novasched.objects.request_spec import RequestSpec
from novasched.resources.prefilters.requirements import Facts, Requirements


def compute_status_filter(request: RequestSpec, facts: Facts) -> Requirements:
    """Leave out compute nodes that say that their service is disabled."""
    trait = os_traits.COMPUTE_STATUS_DISABLED
    return Requirements(
        root_forbidden=frozenset({trait}),
        notes=(f'compute_status_filter request filter added forbidden trait {trait}',),
    )

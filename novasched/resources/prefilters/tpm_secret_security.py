# SPDX-License-Identifier: Apache-2.0
"""Who can read the secret of a virtual TPM."""

from __future__ import annotations

from novasched.objects.request_spec import RequestSpec
from novasched.resources.features import trusted_platform_module
from novasched.resources.prefilters.requirements import Facts, Requirements

LEVELS = ('user', 'host', 'deployment')


def tpm_secret_security_filter(
    request: RequestSpec, facts: Facts
) -> Requirements | None:
    """Ask for computes that keep the secret for whom the flavor says, else the user.

    Raises errors.FlavorImageConflict, and errors.InvalidDemand for an odd TPM.
    """
    if trusted_platform_module(request) is None:
        return Requirements(notes=('tpm_secret_security_filter skipped',))
    level = request.extra_specs.get('hw:tpm_secret_security') or 'user'
    if level not in LEVELS:
        problem = f"TPM secret security '{level}' is not supported."
        return Requirements(warnings=(problem,), refused=problem)
    trait = f'COMPUTE_SECURITY_TPM_SECRET_SECURITY_{level.upper()}'
    return Requirements(root_required=frozenset({trait}))

# SPDX-License-Identifier: Apache-2.0
"""Who can read the secret of a virtual TPM."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.resources.prefilters.requirements import Facts, Requirements
from novasched.resources.prefilters.tpm_secret_security import (
    tpm_secret_security_filter,
)
from tests import factories

TPM = {'hw:tpm_version': '2.0'}
TRAIT = 'COMPUTE_SECURITY_TPM_SECRET_SECURITY_'


def added(extra_specs, image=None):
    request = factories.request(extra_specs=extra_specs, image=image)
    return tpm_secret_security_filter(request, Facts())


@pytest.mark.parametrize(
    ('extra_specs', 'image', 'level'),
    [
        (TPM, None, 'USER'),
        ({}, {'hw_tpm_version': '1.2'}, 'USER'),
        ({**TPM, 'hw:tpm_secret_security': ''}, None, 'USER'),
        ({**TPM, 'hw:tpm_secret_security': 'user'}, None, 'USER'),
        ({**TPM, 'hw:tpm_secret_security': 'host'}, None, 'HOST'),
        ({**TPM, 'hw:tpm_secret_security': 'deployment'}, {}, 'DEPLOYMENT'),
    ],
)
def test_levels(extra_specs, image, level):
    expected = Requirements(root_required=frozenset({f'{TRAIT}{level}'}))
    assert added(extra_specs, image) == expected


@pytest.mark.parametrize('extra_specs', [{}, {'hw:tpm_secret_security': 'bad'}])
def test_no_tpm(extra_specs):
    skipped = Requirements(notes=('tpm_secret_security_filter skipped',))
    assert added(extra_specs) == skipped


def test_an_unknown_level_gets_no_host():
    problem = "TPM secret security 'USER' is not supported."
    assert added({**TPM, 'hw:tpm_secret_security': 'USER'}) == Requirements(
        warnings=(problem,), refused=problem
    )


def test_an_odd_tpm_is_an_error():
    with pytest.raises(errors.InvalidDemand, match='Invalid TPM version'):
        added({'hw:tpm_version': '3'})

# SPDX-License-Identifier: Apache-2.0
"""What is asked for and not translated is said, and nothing else."""

from __future__ import annotations

import pytest

from novasched.resources import untranslated
from tests import factories


@pytest.mark.parametrize(
    ('extra_specs', 'image', 'named'),
    [
        pytest.param({}, {}, [], id='a plain flavor'),
        pytest.param(
            {'hw:cpu_policy': 'dedicated'}, {}, ['hw:cpu_policy'], id='pinned'
        ),
        pytest.param({'hw:cpu_policy': 'shared'}, {}, [], id='not pinned'),
        pytest.param({'hw:mem_encryption': 'False'}, {}, [], id='turned off'),
        pytest.param(
            {'hw:cpu_policy': 'dedicated'},
            {'hw_tpm_version': '2.0'},
            ['hw:cpu_policy', 'hw_tpm_version'],
            id='flavor and image',
        ),
        pytest.param({}, {'os_secure_boot': 'disabled'}, [], id='not needed'),
    ],
)
def test_what_is_left_out_is_named(extra_specs, image, named):
    request = factories.request(extra_specs=extra_specs, image=image)
    warnings = untranslated.warnings(request)
    assert len(warnings) == bool(named)
    for name in named:
        assert name in warnings[0]

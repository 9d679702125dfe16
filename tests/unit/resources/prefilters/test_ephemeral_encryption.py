# SPDX-License-Identifier: Apache-2.0
"""Encryption of ephemeral disks."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from novasched.resources.prefilters.ephemeral_encryption import (
    ephemeral_encryption_filter,
)
from novasched.resources.prefilters.requirements import Facts, Requirements
from tests import factories

TRAIT = 'COMPUTE_EPHEMERAL_ENCRYPTION'
WANTED = {'hw:ephemeral_encryption': 'true'}
SKIPPED = Requirements(notes=('ephemeral_encryption_filter skipped',))


def added(extra_specs, properties=None):
    image = ImageMeta(name='cirros', properties=ImageMetaProps(**(properties or {})))
    request = factories.request(extra_specs=extra_specs)
    request.assign(image=image)
    return ephemeral_encryption_filter(request, Facts())


@pytest.mark.parametrize(
    ('extra_specs', 'properties'),
    [
        pytest.param({}, {}, id='nobody says so'),
        pytest.param({'hw:ephemeral_encryption': 'no'}, {}, id='the flavor does not'),
        pytest.param({'hw:ephemeral_encryption_format': 'bad'}, {}, id='format only'),
        pytest.param({}, {'hw_ephemeral_encryption': False}, id='the image does not'),
    ],
)
def test_no_encryption(extra_specs, properties):
    assert added(extra_specs, properties) == SKIPPED


@pytest.mark.parametrize(
    ('extra_specs', 'properties', 'format_'),
    [
        (WANTED, {}, None),
        (WANTED, {'hw_ephemeral_encryption': True}, None),
        ({}, {'hw_ephemeral_encryption': True}, None),
        ({**WANTED, 'hw:ephemeral_encryption_format': ''}, {}, None),
        ({**WANTED, 'hw:ephemeral_encryption_format': 'plain'}, {}, 'PLAIN'),
        ({**WANTED, 'hw:ephemeral_encryption_format': 'luks'}, {}, 'LUKS'),
        (WANTED, {'hw_ephemeral_encryption_format': 'luksv2'}, 'LUKSV2'),
    ],
)
def test_encryption(extra_specs, properties, format_):
    found = added(extra_specs, properties)
    traits = [TRAIT] + ([f'{TRAIT}_{format_}'] if format_ else [])
    assert found.root_required == {*traits}
    assert list(found.notes) == [
        f'ephemeral_encryption_filter added trait {trait}' for trait in traits
    ]


@pytest.mark.parametrize(
    ('extra_specs', 'properties', 'kind', 'text'),
    [
        (
            WANTED,
            {'hw_ephemeral_encryption': False},
            errors.FlavorImageConflict,
            'Flavor small has hw:ephemeral_encryption extra spec explicitly set to '
            'true, conflicting with image cirros which has hw_eph_encryption property '
            'explicitly set to False',
        ),
        (
            {**WANTED, 'hw:ephemeral_encryption_format': 'luks'},
            {'hw_ephemeral_encryption_format': 'plain'},
            errors.FlavorImageConflict,
            'Flavor small has hw:ephemeral_encryption_format extra spec explicitly set '
            'to luks, conflicting with image cirros which has '
            'hw_ephemeral_encryption_format explicitly set to plain.',
        ),
        (
            {**WANTED, 'hw:ephemeral_encryption_format': 'LUKS'},
            {},
            errors.InvalidDemand,
            'Invalid ephemeral encryption format LUKS. Allowed values: plain, luks, '
            'luksv2',
        ),
    ],
    ids=['one wants it', 'two formats', 'an unknown format'],
)
def test_nonsense(extra_specs, properties, kind, text):
    with pytest.raises(kind) as raised:
        added(extra_specs, properties)
    assert str(raised.value) == text


def test_a_request_without_an_image_has_its_flavor():
    request = factories.request(extra_specs=WANTED)
    assert ephemeral_encryption_filter(request, Facts()).root_required == {TRAIT}

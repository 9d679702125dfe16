# SPDX-License-Identifier: Apache-2.0
"""Amounts and durations in words."""

import pytest

from novasched.inspection.texts import amounts


@pytest.mark.parametrize(
    ('ms', 'said'),
    [(None, ''), (0, '0 ms'), (0.42, '0.4 ms'), (19.4, '19 ms'), (2157, '2.2 s')],
)
def test_durations(ms, said):
    assert amounts.duration(ms) == said


@pytest.mark.parametrize(
    ('resource', 'number', 'said'),
    [
        ('MEMORY_MB', 512, '512 MiB'),
        ('MEMORY_MB', 1536, '1.5 GiB'),
        ('DISK_GB', 204800, '200 TiB'),
        ('VCPU', 12, '12'),
    ],
)
def test_amounts(resource, number, said):
    assert amounts.amount(resource, number) == said


@pytest.mark.parametrize(
    ('resource', 'number', 'whole', 'said'),
    [
        ('MEMORY_MB', 1024, 262144, '1 of 256 GiB'),
        ('MEMORY_MB', 512, 262144, '0.5 of 256 GiB'),
        ('MEMORY_MB', 8, 262144, '<0.1 of 256 GiB'),
        ('DISK_GB', 0, 204800, '0 of 200 TiB'),
        ('DISK_GB', 520, 204800, '0.5 of 200 TiB'),
        ('VCPU', 12, 64, '12 of 64'),
    ],
)
def test_parts_have_the_unit_of_the_whole(resource, number, whole, said):
    assert amounts.part(resource, number, whole) == said


@pytest.mark.parametrize(
    ('resource', 'text', 'said'),
    [
        (
            'MEMORY_MB',
            '262144 wanted, at most 512 free',
            '256 GiB wanted, at most 512 MiB free',
        ),
        ('VCPU', '64 wanted', '64 wanted'),
        ('', 'in zone az1, not az2', 'in zone az1, not az2'),
    ],
)
def test_texts_on_a_resource_class_get_its_unit(resource, text, said):
    assert amounts.in_units(resource, text) == said


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        (
            '262144 free MEMORY_MB on cmp-15',
            '262144 free MEMORY_MB (256 GiB) on cmp-15',
        ),
        ('8 free VCPU, 80 free DISK_GB', '8 free VCPU, 80 free DISK_GB (80 GiB)'),
    ],
)
def test_amounts_in_texts_are_explained(text, said):
    assert amounts.explained_amounts(text) == said


@pytest.mark.parametrize(
    ('value', 'said'), [(0, '0'), (0.001, '<0.01'), (0.25, '0.25'), (4.2, '4.2')]
)
def test_rates(value, said):
    assert amounts.number(value) == said
    assert amounts.number(123.4) == '123'

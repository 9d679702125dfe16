# SPDX-License-Identifier: Apache-2.0
"""Sizes of flavors from the texts of an option."""

import pytest

from novasched.scheduler.flavor_sizes import FlavorSize, parse_sizes
from tests.support.tables.cases import cases


def test_a_flavor_without_a_share_counts_one():
    assert parse_sizes(['2:4096', '8:14336=0.25']) == (
        FlavorSize(2, 4096, 1),
        FlavorSize(8, 14336, 0.25),
    )


@cases(
    'items, problem',
    ('no amounts', ['m1.small'], "'m1.small' is not vcpus:ram_mb=share"),
    ('one amount', ['4'], "'4' is not vcpus:ram_mb=share"),
    ('share is text', ['4:1024=x'], "'4:1024=x' is not vcpus:ram_mb=share"),
    ('share is empty', ['4:1024='], "'4:1024=' is not vcpus:ram_mb=share"),
    ('no RAM', ['4:0'], "'4:0' needs positive amounts"),
    ('share below 0', ['4:1024=-1'], "'4:1024=-1' needs positive amounts"),
    ('share is no number', ['4:1024=nan'], "'4:1024=nan' needs positive amounts"),
    ('too many', ['1:1'] * 33, '33 flavors are more than 32'),
)
def test_nonsense_is_named(items, problem):
    with pytest.raises(ValueError, match=problem):
        parse_sizes(items)

# SPDX-License-Identifier: Apache-2.0
"""What aggregates say together."""

from novasched.scheduler import aggregates
from tests.support.clouds import factories

SSD = factories.aggregate(1, ssd='true', zone='a, b')
HDD = factories.aggregate(2, ssd='false', speed='')
PLAIN = factories.aggregate(3)


def test_values_are_not_split():
    assert aggregates.values([SSD, HDD, PLAIN], 'zone') == {'a, b'}
    assert aggregates.values([PLAIN], 'zone') == set()


def test_metadata_is_split_on_commas_and_merged():
    assert aggregates.metadata([SSD, HDD, PLAIN]) == {
        'ssd': {'true', 'false'},
        'zone': {'a', 'b'},
        'speed': {''},
    }


def test_with_a_key_only_aggregates_that_have_it_contribute():
    assert aggregates.metadata([SSD, HDD], 'zone') == {
        'ssd': {'true'},
        'zone': {'a', 'b'},
    }


def test_the_zone_of_an_aggregate():
    assert factories.aggregate(1, availability_zone='az1').availability_zone == 'az1'
    assert PLAIN.availability_zone is None

# SPDX-License-Identifier: Apache-2.0
"""Answers of the network service of every shape, those that make no sense included."""

from __future__ import annotations

import pytest

from novasched.network import shapes
from novasched.network.shapes import Page
from novasched.resources.requirements import Port

NONSENSE = [None, [], 'x', 1, {}]


@pytest.mark.parametrize(
    'body',
    [
        *NONSENSE,
        {'port': None},
        {'port': []},
        {'port': [1]},
        {'port': {'fixed_ips': 'abc'}},
        {'port': {'fixed_ips': {'a': 1}}},
        {'port': {'fixed_ips': [1]}},
        {'port': {'fixed_ips': [{'subnet_id': {'a': 1}}]}},
        {'port': {'binding:vnic_type': []}},
        {'port': {'network_id': 5}},
    ],
    ids=str,
)
def test_what_is_no_port(body):
    with pytest.raises(ValueError, match=r'\w'):
        shapes.port(body)


def test_a_port_may_have_no_addresses():
    assert shapes.port({'port': {'fixed_ips': None}}) == Port(None, None, None)


@pytest.mark.parametrize(
    'body', [*NONSENSE, {'subnet': [1]}, {'subnet': {'segment_id': 5}}], ids=str
)
def test_what_is_no_subnet(body):
    with pytest.raises(ValueError, match=r'\w'):
        shapes.segments(body)


@pytest.mark.parametrize(
    'body',
    [
        *NONSENSE,
        {'subnets': {'a': 1}},
        {'subnets': ['x']},
        {'subnets': [{'segment_id': {'a': 1}}]},
        {'subnets': [], 'subnets_links': ['next']},
        {'subnets': [], 'subnets_links': [{'rel': 'next'}]},
        {'subnets': [], 'subnets_links': [{'rel': 'next', 'href': 'http://n/v2.0'}]},
    ],
    ids=str,
)
def test_what_is_no_page(body):
    with pytest.raises(ValueError, match=r'\w'):
        shapes.page(body)


LINK = {'rel': 'next', 'href': 'http://elsewhere/v2.0/subnets?limit=1&marker=a'}


@pytest.mark.parametrize(
    ('links', 'query'),
    [
        pytest.param([LINK], 'limit=1&marker=a', id='there is more'),
        pytest.param([{**LINK, 'rel': 'previous'}], None, id='there was more'),
        pytest.param([], None, id='no links'),
        pytest.param(None, None, id='null'),
        pytest.param({'rel': 'next'}, None, id='no list'),
    ],
)
def test_pages(links, query):
    body = {'subnets': [{'segment_id': 'a'}], 'subnets_links': links}
    assert shapes.page(body) == Page(frozenset('a'), query)

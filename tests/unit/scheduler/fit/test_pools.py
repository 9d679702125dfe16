# SPDX-License-Identifier: Apache-2.0
"""The pools in a pci_stats column: all their forms, their order, nonsense."""

from __future__ import annotations

import json

import pytest

from novasched.objects.pci import PciDevicePool, PciDevicePoolList
from novasched.scheduler.fit.pools import Pool, parse_pools
from novasched.scheduler.fit.reported import Unreadable

NIC = {'vendor_id': '8086', 'product_id': '1520'}
NIC_TAGS = frozenset(NIC.items())


def objects(data):
    """Return the text of a list of one pool, whose data may be anything."""
    pool = {'nova_object.name': 'PciDevicePool', 'nova_object.data': data}
    made = {'nova_object.name': 'PciDevicePoolList'}
    return json.dumps({**made, 'nova_object.data': {'objects': [pool]}})


def stats(*pools):
    made = [PciDevicePool(**{**NIC, 'count': 1, 'tags': {}, **pool}) for pool in pools]
    return json.dumps(PciDevicePoolList(objects=made).obj_to_primitive())


@pytest.mark.parametrize(
    ('text', 'pools'),
    [
        pytest.param(stats({'count': 2}), [(None, 2)], id='no node'),
        pytest.param(stats({'numa_node': None}), [(None, 1)], id='null node'),
        pytest.param(
            stats({'numa_node': 1, 'count': 2}, {'numa_node': 0}),
            [(1, 2), (0, 1)],
            id='two pools',
        ),
        pytest.param(json.dumps({**NIC, 'count': 2}), [(None, 2)], id='one of old'),
        pytest.param(
            json.dumps(
                [{**NIC, 'count': '3', 'numa_node': '1'}, {**NIC, 'count': 2.7}]
            ),
            [(1, 3), (None, 2)],
            id='a list of old, with numbers of any kind',
        ),
        pytest.param(stats({'count': 0}), [(None, 0)], id='an empty pool'),
    ],
)
def test_pools(text, pools):
    found = parse_pools(text)
    assert [(pool.numa_node, pool.count) for pool in found] == pools
    assert {pool.tags for pool in found} == {NIC_TAGS}


@pytest.mark.parametrize(
    'text',
    [
        pytest.param('[', id='no JSON'),
        pytest.param('[' * 100000, id='too deep'),
        pytest.param('7', id='a number'),
        pytest.param('["x"]', id='text for a pool'),
        pytest.param('[null]', id='null for a pool'),
        pytest.param('[{}]', id='a pool of nothing'),
        pytest.param(json.dumps([NIC]), id='no count'),
        pytest.param('[{"count": 1}]', id='no product'),
        pytest.param(json.dumps([{**NIC, 'vendor_id': None, 'count': 1}]), id='null'),
        pytest.param(json.dumps([{**NIC, 'count': 'many'}]), id='no number'),
        pytest.param(json.dumps([{**NIC, 'count': float('inf')}]), id='too many'),
        pytest.param(json.dumps([{**NIC, 'count': 1, 'tag': ['x']}]), id='a list'),
        pytest.param(json.dumps([{**NIC, 'count': -1}]), id='fewer than none'),
        pytest.param(json.dumps([{**NIC, 'count': -1e300}]), id='far fewer'),
        pytest.param(json.dumps([{**NIC, 'count': 2**31}]), id='one too many'),
        pytest.param(
            json.dumps([{**NIC, 'count': 1, 'numa_node': 2**53}]), id='no node'
        ),
        pytest.param(objects({**NIC, 'count': 1, 'tags': None}), id='no tags'),
        pytest.param(objects([1]), id='a list for a pool'),
        pytest.param('{"objects": 3}', id='no list of objects'),
        pytest.param('{"nova_object.name": "PciDevicePoolList"}', id='no content'),
        pytest.param(
            json.dumps([{**NIC, 'count': 1}, {**NIC, 'count': 'many'}]),
            id='one of two is nonsense',
        ),
    ],
)
def test_text_that_cannot_be_read(text):
    with pytest.raises(Unreadable):
        parse_pools(text)


@pytest.mark.parametrize(
    'text',
    [
        pytest.param(None, id='never reported'),
        pytest.param('', id='empty'),
        pytest.param('null', id='null'),
        pytest.param('{}', id='an empty object'),
        pytest.param(stats(), id='no pools'),
    ],
)
def test_no_pools(text):
    assert parse_pools(text) == ()


@pytest.mark.parametrize(
    'text',
    [
        pytest.param(
            stats({'numa_node': 1, 'tags': {'a': 'x', 'b': None, 'rp_uuid': 'rp'}}),
            id='objects',
        ),
        pytest.param(
            json.dumps(
                {
                    **NIC,
                    'count': 1,
                    'numa_node': 1,
                    'a': 'x',
                    'b': None,
                    'rp_uuid': 'rp',
                }
            ),
            id='a plain dict',
        ),
    ],
)
def test_tags(text):
    (pool,) = parse_pools(text)
    assert pool.rp_uuid == 'rp'
    assert pool.keys == {**NIC, 'a': 'x', 'b': None, 'rp_uuid': 'rp'}
    assert pool.flat() == {**pool.keys, 'numa_node': 1, 'count': 1}


def test_tags_are_text():
    (pool,) = parse_pools(json.dumps([{**NIC, 'count': 1, 'n': 5, 'yes': True}]))
    assert pool.keys == {**NIC, 'n': '5', 'yes': 'True'}


def test_a_null_provider_is_a_tag_like_any_other():
    (pool,) = parse_pools(stats({'tags': {'rp_uuid': None}}))
    assert (pool.rp_uuid, pool.keys) == (None, {**NIC, 'rp_uuid': None})


def test_pools_with_fewer_tags_come_first():
    tags = [{'a': '1', 'b': '2'}, {'rp_uuid': 'x'}, {'c': '3'}, {}, {'a': '1'}]
    found = parse_pools(stats(*({'tags': each} for each in tags)))
    assert [pool.keys for pool in found] == [
        NIC | each for each in ({}, tags[1], tags[2], tags[4], tags[0])
    ]


def test_pools_are_values():
    (one,), (other,) = parse_pools(stats({})), parse_pools(stats({}) + ' ')
    assert one == other == Pool(NIC_TAGS, None, 1)
    assert one.tags is other.tags
    assert len({one, other}) == 1

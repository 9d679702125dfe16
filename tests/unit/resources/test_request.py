# SPDX-License-Identifier: Apache-2.0
"""From a request to its query, with the strings that nova sends."""

import pytest

from novasched.objects.request_spec import Destination, RequestLevelParams
from novasched.resources import Requirements, build_query, target_of
from tests.support.databases.query_table import (
    A1,
    A3,
    A9,
    H0,
    H1,
    PINNED,
    PORT,
    SMALL,
    TABLE,
    encoded,
    given,
    group,
    request_of,
)
from tests.support.tables.cases import cases


def spec(*values, **fields):
    return request_of(given(*values, **fields))


def query(request, added=None, nodes=None, limit=1000, **options):
    return build_query(request, added or Requirements(), nodes, limit, **options)


def nodes_of(data, asked):
    """Return the nodes that a request names, as the cluster view finds them."""
    target = target_of(asked)
    return target and [
        uuid
        for host, node, uuid in data['nodes']
        if target.host in (None, host) and target.node in (None, node)
    ]


@pytest.mark.parametrize('name', TABLE)
def test_the_queries_of_nova(name):
    data, expected = TABLE[name]
    asked = request_of(data)
    made = query(asked, nodes=nodes_of(data, asked))
    queries = [made] if made.fallback is None else [made, made.fallback]
    assert [each.encode() for each in queries] == expected
    assert asked.obj_what_changed() == set()


def test_prefilters_add_to_what_the_request_says():
    params = RequestLevelParams(root_required={'A'}, root_forbidden={'B'})
    added = Requirements(
        root_required=frozenset({'OWNER_NOVA'}),
        member_of=(frozenset({A3}),),
        not_member_of=frozenset({A9}),
        group_required={'R1-0': frozenset({'OWNER_NOVA'})},
    )
    asked = spec(groups=[group('R1-0', {'CUSTOM_GPU': 1}, 'CUSTOM_X')]).replaced(
        request_level_params=params, requested_destination=Destination(aggregates=[A1])
    )
    assert query(asked, added).encode() == encoded(
        f'limit=1000&member_of=!in:{A9}&member_of=in:{A1}&member_of=in:{A3}'
        f'&requiredR1-0=CUSTOM_X,OWNER_NOVA&{SMALL}&resourcesR1-0=CUSTOM_GPU:1'
        '&root_required=A,OWNER_NOVA,!B'
    )
    assert (params.root_required, params.root_forbidden) == ({'A'}, {'B'})
    assert asked.requested_destination.aggregates == [A1]


def test_the_fallback_has_all_that_prefilters_add():
    added = Requirements(
        root_required=frozenset({'OWNER_NOVA'}),
        group_required={'R1-0': frozenset({'OWNER_NOVA'})},
    )
    asked = spec(extra_specs=PINNED, groups=[group('R1-0', {'CUSTOM_GPU': 0}, 'X')])
    made = query(asked, added, [H0])
    assert made.encode().replace('PCPU', 'VCPU') == made.fallback.encode()
    assert made.fallback.fallback is None


def test_the_fallback_can_be_turned_off():
    assert query(spec(extra_specs=PINNED), falls_back=False).fallback is None


@cases(
    'hints, nodes, text',
    ('one node', {}, [H0], f'in_tree={H0}&limit=1000&{SMALL}'),
    ('a host of many nodes', {}, [H0, H1], SMALL),
    ('no such node', {}, [], f'limit=1000&{SMALL}'),
    ('a hint that says nothing', {'group': []}, None, SMALL),
    ('other hints', {'query': ['x']}, None, f'limit=1000&{SMALL}'),
)
def test_where_to(hints, nodes, text):
    assert query(spec(hints=hints), nodes=nodes).encode() == encoded(text)


def test_no_limit():
    assert query(spec(), limit=None).encode() == encoded(SMALL)


@cases(
    'extra_specs',
    ('two groups', {'resources1:VGPU': '1', 'resources2:VGPU': '1'}),
    ('and nonsense', {'resources1:VGPU': '1', 'trait2:A': 'maybe'}),
)
def test_groups_of_a_flavor_need_a_policy_of_its_own(extra_specs):
    asked = query(spec(extra_specs=extra_specs, groups=[PORT]))
    assert asked.group_policy is None
    assert (asked.warnings[-1][:39], asked.notes) == (
        'The request has several numbered resour',
        (),
    )


def test_groups_that_a_flavor_cannot_know_of_get_a_policy():
    asked = query(spec(extra_specs={'resources1:VGPU': '1'}, groups=[PORT]))
    assert asked.group_policy == 'none'
    assert (len(asked.warnings), len(asked.notes)) == (1, 1)


def test_ignored_demands_are_warnings():
    asked = query(
        spec(
            extra_specs={'resources:VCPU': 'many'},
            image={'hw_firmware_stateless': 'true'},
        )
    )
    assert asked.encode() == encoded(f'limit=1000&{SMALL}')
    assert asked.warnings == (
        "Resource amounts must be nonnegative integers. Received 'many'",
        "The image property 'hw_firmware_stateless' is set for non UEFI firmware "
        'type. This property is ignored.',
    )

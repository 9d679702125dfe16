# SPDX-License-Identifier: Apache-2.0
"""Geometry of charts."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from novasched.console.pages import heat, shapes
from novasched.inspection.questions.reports import HeatReport, HostGroup

KINDS = ('scheduled', 'unschedulable', 'error')


def test_a_share_is_seen_and_no_more_than_all():
    assert shapes.share(0, 10) == 0
    assert shapes.share(5, 10) == 50
    assert shapes.share(1, 100_000) == shapes.LEAST_SHOWN
    assert shapes.share(11, 10) == 100
    assert shapes.share(1, 0) == 0


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=8))
def test_segments_fill_the_bar(amounts):
    parts = shapes.segments([(str(n), amount) for n, amount in enumerate(amounts)])
    assert len(parts) == sum(amount > 0 for amount in amounts)
    for one, other in itertools.pairwise(parts):
        assert one.start + one.length == pytest.approx(other.start, abs=0.02)
    if parts:
        assert parts[0].start == 0
        assert parts[-1].start + parts[-1].length == pytest.approx(100, abs=0.02)


@given(st.lists(st.fixed_dictionaries(dict.fromkeys(KINDS, st.integers(0, 500)))))
def test_columns_stand_on_the_ground_and_have_room(rows):
    chart = shapes.columns(rows, KINDS)
    assert chart.most == max((sum(row.values()) for row in rows), default=0)
    for row, stack in zip(rows, chart.stacks, strict=True):
        assert [b.kind for b in stack] == [kind for kind in KINDS if row[kind]]
        if stack:
            assert stack[0].y + stack[0].height == pytest.approx(shapes.HEIGHT, abs=0.1)
        assert all(0 <= block.y < shapes.HEIGHT for block in stack)


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_every_number_has_a_step(largest, number):
    least = shapes.thresholds(largest)
    assert len(least) == min(4, largest)
    assert least == sorted(set(least))
    step = shapes.step_of(min(number, largest), least)
    assert (step == 0) == (min(number, largest) == 0)
    assert step <= 4


def slots(number, zone='az1', aggregate='pinned'):
    hosts = [(f'cmp-{n:05}', n % 7 if n % 11 else None) for n in range(number)]
    return HostGroup(zone, aggregate, hosts)


def squares(view):
    return [
        square
        for zone in view['zones']
        for group in zone['groups']
        for block in group['blocks']
        for square in block['squares']
    ]


@pytest.mark.parametrize('number', [0, 1, 20, 201, 2000])
def test_a_square_is_a_host(number):
    groups = [slots(number)] if number else []
    view = heat.view(HeatReport('m1', groups))
    found = squares(view)
    assert [each.href for each in found] == [
        f'/hosts/cmp-{n:05}' for n in range(number)
    ]
    assert view['slots'] == sum(n % 7 for n in range(number) if n % 11)


def test_a_square_is_ten_hosts_of_one_aggregate():
    groups = [slots(1995), slots(13, aggregate='')]
    view = heat.view(HeatReport('m1', groups))
    found = squares(view)
    assert len(found) == 200 + 2
    assert found[-1].href == '/hosts?name=cmp-00010%2Ccmp-00011%2Ccmp-00012&flavor=m1'
    assert found[-1].title.startswith('cmp-00010 to cmp-00012: ')
    assert '10 hosts' in view['label']


def test_squares_of_a_block_do_not_lie_on_each_other():
    view = heat.view(HeatReport('m1', [slots(450)]))
    (group,) = view['zones'][0]['groups']
    assert group['is_wide']
    blocks = group['blocks']
    assert [len(block['squares']) for block in blocks] == [100, 100, 100, 100, 50]
    for block in blocks:
        places = {(square.x, square.y) for square in block['squares']}
        assert len(places) == len(block['squares'])
        assert max(x for x, _ in places) + view['side'] <= block['width']
        assert max(y for _, y in places) + view['side'] <= block['height']


def test_the_legend_names_every_step_once():
    view = heat.view(HeatReport('m1', [slots(50)]))
    said = dict(view['legend'])
    assert list(said) == [0, 1, 2, 3, 4, heat.AWAY]
    assert said[1] == '1'
    assert said[4].endswith('6')
    assert {each.step for each in squares(view)} == set(said)


def test_racks_stand_in_the_order_in_which_people_count():
    groups = [slots(1, aggregate=f'rack-{n}') for n in (1, 10, 100, 9)]
    view = heat.view(HeatReport('m1', groups))
    names = [group['aggregate'] for group in view['zones'][0]['groups']]
    assert names == ['rack-1', 'rack-9', 'rack-10', 'rack-100']


def test_digits_that_are_not_decimal_are_text():
    groups = [slots(1, aggregate=name) for name in ('rack 1①', '10²', 'rack 1')]
    view = heat.view(HeatReport('m1', groups))
    names = [group['aggregate'] for group in view['zones'][0]['groups']]
    assert names == ['10²', 'rack 1', 'rack 1①']

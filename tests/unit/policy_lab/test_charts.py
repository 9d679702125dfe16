# SPDX-License-Identifier: Apache-2.0
"""Series as SVG."""

from xml.etree import ElementTree

from novasched.policy_lab import charts
from novasched.policy_lab.texts import series_of
from tests.support.records.lab_runs import run_result

SVG = '{http://www.w3.org/2000/svg}'


def drawn(title, found):
    return ElementTree.fromstring(charts.svg(charts.chart(title, found)))


def test_each_policy_is_a_line_with_its_name():
    chart = drawn('empty', series_of(run_result(), 'empty_percent'))
    lines = [each.get('points').split() for each in chart.iter(f'{SVG}polyline')]
    assert [len(each) for each in lines] == [3, 3]
    names = [each.text for each in chart.iter(f'{SVG}text')]
    assert {'now', 'pack'} <= set(names)
    assert chart.find(f'{SVG}title').text == 'empty'


def test_all_points_are_within_the_picture():
    chart = drawn('far', {'now': ([0.0, 9e5], [-3.0, 1e9])})
    for line in chart.iter(f'{SVG}polyline'):
        for x, y in (
            map(float, point.split(',')) for point in line.get('points').split()
        ):
            assert charts.LEFT <= x <= charts.WIDTH - charts.RIGHT
            assert charts.TOP <= y <= charts.HEIGHT - charts.BOTTOM


def test_values_that_are_equal_or_not_there_are_drawn():
    drawn('flat', {'now': ([0.0, 10.0], [5.0, 5.0])})
    drawn('zero', {'now': ([0.0], [0.0])})
    drawn('none', {'now': ([], [])})


def test_texts_are_no_markup():
    chart = charts.svg(charts.chart('<b>', {'<script>': ([0.0], [1.0])}))
    assert '<script>' not in chart
    assert '&lt;script&gt;' in chart

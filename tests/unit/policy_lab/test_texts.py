# SPDX-License-Identifier: Apache-2.0
"""Runs of the policy lab as text."""

import pytest

from novasched import errors
from novasched.inspection.texts.lines import Style
from novasched.policy_lab import texts
from tests.support.records.lab_runs import run_result
from tests.support.tables.cases import cases

WIDE = Style(width=120)


def line(text, begins):
    return next(each for each in text.splitlines() if each.startswith(begins))


def test_each_policy_has_a_line_and_others_a_difference():
    text = texts.as_text(run_result(refused=(1, 0), needed=(12, 11)), WIDE)
    assert line(text, 'Policy').split('  ')[0] == 'Policy'
    now = line(text, 'now   ').split()
    assert now[:2] == ['now', 'defaults']
    assert '1.00 %' in line(text, 'now    ' + ' ' * 5)
    assert '11 -8.3 %' in line(text, 'pack    ')
    assert '-1.00' in line(text, 'pack - now')
    assert 'Most refused under now: l (8 vCPU 56 GB), 2 VMs, by RAM' in text
    assert 'Most refused under pack' not in text


def test_figures_of_another_load_are_marked():
    text = texts.as_text(run_result(refused=(4, 0)), WIDE)
    row = line(text, 'pack    ')
    assert row.count('*') == 2
    assert '* pack refused more or less than now, by over 1 point' in text


def test_one_part_has_no_interval_and_no_difference():
    text = texts.as_text(run_result(parts=(1,)), WIDE)
    assert 'One part alone: there is no interval.' in text
    assert 'pack - now' not in text


def test_room_is_of_the_largest_flavors_or_of_those_named():
    run = run_result()
    assert 'Room 8/56   Room 1/2' in texts.as_text(run, WIDE)
    assert 'Room 8/56' not in texts.as_text(run, WIDE, ['s'])
    with pytest.raises(errors.OptionError, match='--room'):
        texts.as_text(run, WIDE, ['xl'])


def test_fleet_names_each_kind_of_host():
    text = texts.fleet(run_result().hosts)
    assert text == '3 x 8 vCPU 32 GB, 1 x 16 vCPU 128 GB'


@cases(
    'name, number, sign, shown',
    ('no number', 'empty_percent', None, '', '-'),
    ('a share', 'empty_percent', 3.14159, '', '3.1 %'),
    ('what was refused, in hundredths', 'refused_percent', 0.126, '', '0.13 %'),
    ('a difference', 'empty_percent', 3.14159, '+', '+3.1 %'),
    ('hours', 'first_refusal_s', 5400.0, '', '1.5 h'),
    ('points', 'spread_vcpus_points', 11.44, '', '11.4'),
    ('a count', 'refused_vms', 7, '', '7'),
)
def test_values_have_their_unit(name, number, sign, shown):
    assert texts.value(name, number, sign) == shown


def test_refused_servers_are_listed_by_flavor_and_step():
    text = texts.refused(run_result(), WIDE)
    assert line(text, 'now').split() == [
        'now',
        'l',
        '20',
        '8',
        '40.00',
        '%',
        'RAM',
        '8',
    ]
    none = run_result(refused=(0, 0))
    assert texts.refused(none, WIDE) == 'No policy refused a VM.'


def test_hosts_needed_are_listed_part_by_part():
    text = texts.needed_hosts(run_result(needed=(12, 11)), WIDE)
    assert line(text, 'pack').split()[:4] == ['pack', '1', '11', '+10.0']
    assert text.endswith('now: 12 hosts\npack: 11 -8.3 % hosts')


def test_all_figures_are_a_line_each():
    text = texts.all_figures(run_result(), WIDE)
    assert line(text, 'empty hosts ').split()[2:] == [
        '1.5',
        '%',
        '11.5',
        '%',
        '+10.0±0.0',
    ]


def test_series_over_time_are_bars_on_one_scale():
    text = texts.over_time(run_result(), ['empty_percent', 'room:l'], WIDE)
    assert 'empty hosts, %, 0 to 23' in text
    assert 'room for l, VMs, 1 to 4' in text
    assert '▁▅█' in line(text, 'pack')


def test_many_values_share_a_bar():
    assert texts.sparkline([0, 0, 8, 8], 0, 8, 2) == '▁█'
    assert texts.sparkline([], 0, 0, 5) == ''


def test_series_as_csv_have_a_column_for_each_policy():
    found = texts.series_of(run_result(), 'empty_percent')
    lines = texts.as_csv(found | {'a "b", c': ([0.0], [1.0])}).splitlines()
    assert lines[0] == 'at_s,now,pack,"a ""b"", c"'
    assert lines[1:3] == ['0,0,0,1', '1800,1.5,11.5,']


def test_series_that_is_not_there_is_an_error():
    with pytest.raises(LookupError):
        texts.series_of(run_result(), 'room:xl')

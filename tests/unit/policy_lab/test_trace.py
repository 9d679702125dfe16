# SPDX-License-Identifier: Apache-2.0
"""Traces, and the import of Azure's arrivals."""

import itertools

import pytest

from novasched import errors
from novasched.policy_lab import azure2017, trace
from novasched.policy_lab.azure2017 import TAIL_FROM_S, import_azure2017
from novasched.policy_lab.results import FleetGroup
from novasched.policy_lab.trace import Load, ServerBatch, TraceFlavor
from tests.support.clouds.traces import FLAVORS, azure_file, batches, written

DAY = 86400.0


def test_trace_reads_what_was_written(tmp_path):
    written(tmp_path, parts=(1, 2))
    assert trace.read(tmp_path).flavors == list(FLAVORS)
    assert trace.read_part(tmp_path, 2) == batches(2)


@pytest.mark.parametrize('name', ['trace.json', 'part-1.jsonl.gz'])
def test_torn_trace_is_refused(tmp_path, name):
    written(tmp_path)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(errors.OptionError):
        trace.read(tmp_path), trace.read_part(tmp_path, 1)


def test_peak_counts_what_runs_at_once():
    flavors = [TraceFlavor('one', 1, 10), TraceFlavor('two', 2, 10)]
    made = [
        ServerBatch(-5.0, 1, [None] * 9 + [1.0]),
        ServerBatch(0.0, 0, [10.0, 20.0]),
        ServerBatch(10.0, 1, [5.0]),
    ]
    assert trace.peak(flavors, made) == Load(9 * 2 + 1 + 2, 110)


@pytest.mark.parametrize(
    ('text', 'groups'),
    [
        ('24x40:96', [FleetGroup(24, 40, 98304)]),
        ('1x8:32,2x16:24', [FleetGroup(1, 8, 32768), FleetGroup(2, 16, 24576)]),
        ('2x8:32:2', [FleetGroup(2, 8, 32768, numa_nodes=2)]),
        ('8:32@50%', [FleetGroup(20, 8, 32768)]),
        ('8:32,8:8@50%', [FleetGroup(16, 8, 32768), FleetGroup(16, 8, 8192)]),
    ],
)
def test_hosts_are_read_and_counted(text, groups):
    assert trace.parse_hosts(text, Load(80, 320 * 1024)) == groups


@pytest.mark.parametrize(
    'text',
    [
        '',
        '8',
        '8:32',
        '2x8:32@95%',
        '8:32@x',
        '8:32@0%',
        '8:32@nan',
        '3x0:32',
        '3x8:0',
        '384x2x24:72',
        '3x8:32:0',
        '3x8:32:2,3x8:32',
    ],
)
def test_hosts_that_cannot_be_read_are_refused(text):
    with pytest.raises(errors.OptionError):
        trace.parse_hosts(text, Load(80, 1024))


def test_scaled_hosts_stay_mixed_alike():
    mixed = [FleetGroup(30, 8, 1), FleetGroup(10, 16, 1)]
    assert [group.count for group in trace.scaled(mixed, 21)] == [16, 5]


def test_same_import_makes_same_bytes(tmp_path):
    file = azure_file(tmp_path / 'azure.csv.gz')
    import_azure2017(file, tmp_path / 'two', '9x8:32', '1-3/3')  # written over
    for name in ('one', 'two'):
        import_azure2017(file, tmp_path / name, '8:32@95%', '1-2/2', 2 * DAY)
    assert trace.digest(tmp_path / 'one') == trace.digest(tmp_path / 'two')


def test_parts_are_disjoint_and_whole(tmp_path):
    file = azure_file(tmp_path / 'azure.csv.gz')
    import_azure2017(file, tmp_path / 'parts', '9x8:32', '1-3/3')
    import_azure2017(file, tmp_path / 'all', '9x8:32')
    parts = [trace.read_part(tmp_path / 'parts', number) for number in (1, 2, 3)]
    assert all(parts)
    assert sorted(itertools.chain(*parts), key=repr) == sorted(
        trace.read_part(tmp_path / 'all', 1), key=repr
    )


def test_warm_up_brings_residents_and_keeps_the_window(tmp_path):
    file = azure_file(tmp_path / 'azure.csv.gz')
    import_azure2017(file, tmp_path / 'cold', '9x8:32')
    made = import_azure2017(file, tmp_path / 'warm', '9x8:32', warm_up_s=2 * DAY)
    cold = trace.read_part(tmp_path / 'cold', 1)
    warm = trace.read_part(tmp_path / 'warm', 1)
    before = [batch for batch in warm if batch.at_s < 0]
    assert [batch for batch in warm if batch.at_s >= 0] == cold
    assert before == sorted(before, key=lambda batch: batch.at_s)
    old = [b for b in before if b.at_s < -2 * DAY]
    assert old
    assert min(life for b in old for life in b.lifetimes_s) > azure2017.LONG_S
    loads = [load for b, load in trace.offered(made.flavors, warm) if b.at_s < 0]
    peak = trace.peak(made.flavors, warm)
    assert 0 < max(load.vcpus for load in loads) <= peak.vcpus


def test_survival_counts_censored_lives_until_they_end():
    curve = azure2017.survival([(10.0, True), (20.0, False), (30.0, True)])
    assert curve[0] == [10.0, 30.0]
    assert curve[1] == pytest.approx([1 / 3, 1.0])
    assert azure2017.quantile_s(curve, 0.2) == 10.0
    assert azure2017.quantile_s(curve, 0.5) == 30.0


def test_lives_beyond_the_curve_have_a_pareto_tail():
    curve = azure2017.survival([(10.0, True), (TAIL_FROM_S + 1, False)])
    found = azure2017.quantile_s(curve, 0.75)
    assert found == pytest.approx(TAIL_FROM_S * 0.5 ** (-1 / azure2017.TAIL))


@pytest.mark.parametrize('part', ['', '0/8', '9/8', '3-2/8', 'x/8', '1/y'])
def test_part_that_is_none_is_refused(tmp_path, part):
    file = azure_file(tmp_path / 'azure.csv.gz')
    with pytest.raises(errors.OptionError):
        import_azure2017(file, tmp_path / 'out', '9x8:32', part)

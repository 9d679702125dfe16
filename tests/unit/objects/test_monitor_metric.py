# SPDX-License-Identifier: Apache-2.0
"""Metrics as plugins read them."""

import pytest

from novasched.objects.monitor_metric import MonitorMetric, MonitorMetricList
from novasched.ports import InstanceRow

REPORTED = (
    '[{"name": "cpu.percent", "value": 0.35, "source": "s", '
    '"timestamp": "2026-01-01T00:00:00.000000"}]'
)


def test_a_list_goes_back_to_what_was_reported():
    found = MonitorMetricList.from_json(REPORTED)
    assert found[0].value == found.objects[0].value == 35
    assert found.to_list() == [
        {
            'name': 'cpu.percent',
            'value': 0.35,
            'source': 's',
            'timestamp': '2026-01-01T00:00:00.000000',
        }
    ]


def test_a_name_that_is_unknown_is_refused():
    with pytest.raises(ValueError, match='x'):
        MonitorMetricList.from_json('[{"name": "x", "value": 1}]')


def test_lists_are_compared_by_what_is_in_them():
    one, other = (MonitorMetricList.from_json(REPORTED) for _ in range(2))
    assert one == other
    other.append(MonitorMetric(name='cpu.frequency', value=2))
    assert one != other
    other.clear()
    assert other == []


def test_an_instance_of_which_little_is_known_is_read_as_one():
    row = InstanceRow('u', 'h1', 7)
    assert (row['uuid'], row.get('host'), row[2]) == ('u', 'h1', 7)
    assert 'uuid' in row
    assert 'vcpus' not in row
    with pytest.raises(NotImplementedError):
        _ = row.vcpus

# SPDX-License-Identifier: Apache-2.0
"""Names, kinds and labels of the metrics are as Prometheus wants them."""

import re

import pytest

from novasched.observability.catalogue import ALL, IN_FLIGHT, PREFIX

LABELS = {
    'blocker',
    'cause',
    'cell',
    'code',
    'extension_point',
    'outcome',
    'plugin',
    'reason',
    'result',
    'service',
    'verdict',
}
"""No host, instance or project: there would be no end of their values."""


@pytest.mark.parametrize('metric', ALL, ids=lambda metric: metric.name)
def test_a_metric_is_well_formed(metric):
    assert re.fullmatch(r'novasched_[a-z_]+', metric.name)
    assert metric.name.endswith('_total') == (metric.kind == 'counter')
    assert set(metric.labels) <= LABELS
    assert bool(metric.buckets) == (metric.kind == 'histogram')
    assert list(metric.buckets) == sorted(metric.buckets)
    assert bool(metric.across) == (metric.kind == 'gauge')
    assert metric.doc.endswith('.')
    assert not metric.values or (metric.kind == 'counter' and len(metric.labels) == 1)


def test_a_metric_can_have_the_prefix_of_kube_scheduler():
    assert IN_FLIGHT.called('scheduler') == 'scheduler_requests_in_flight'
    assert IN_FLIGHT.called(PREFIX) == IN_FLIGHT.name


def test_every_label_is_explained():
    for metric in ALL:
        for label in (*metric.labels, *metric.values):
            assert label in metric.doc, metric.name


def test_every_name_is_there_once():
    names = [metric.name for metric in ALL]
    assert len(names) == len(set(names))

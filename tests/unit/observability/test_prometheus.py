# SPDX-License-Identifier: Apache-2.0
"""The metrics of one process, as prometheus_client keeps them."""

import pytest

from novasched.observability import catalogue, prometheus
from novasched.observability.catalogue import ALL, CELL_AGE


@pytest.fixture
def metrics():
    return prometheus.Metrics()


def value(metrics, name, **labels):
    return metrics.registry.get_sample_value(name, labels)


def test_every_metric_of_the_catalogue_but_the_derived_one_is_made(metrics):
    made = {family.name for family in metrics.registry.collect()}
    expected = {metric.name.removesuffix('_total') for metric in ALL}
    assert made == expected - {CELL_AGE.name}


def test_names_begin_as_the_operator_wants():
    made = {each.name for each in prometheus.Metrics('scheduler').registry.collect()}
    assert all(name.startswith('scheduler_') for name in made)


def test_counters_count(metrics):
    metrics.count(catalogue.ATTEMPTS, 'scheduled')
    metrics.count(catalogue.ATTEMPTS, 'scheduled', by=2)
    name = catalogue.ATTEMPTS.name
    assert value(metrics, name, result='scheduled') == 3


def test_counters_of_few_values_begin_at_zero(metrics):
    found = {
        (metric.name, label): value(metrics, metric.name, **{metric.labels[0]: label})
        for metric in ALL
        for label in metric.values
    }
    assert (catalogue.CLAIMS.name, 'unknown') in found
    assert set(found.values()) == {0}


def test_gauges_go_up_and_down(metrics):
    metrics.count(catalogue.IN_FLIGHT, by=2)
    metrics.count(catalogue.IN_FLIGHT, by=-1)
    assert value(metrics, catalogue.IN_FLIGHT.name) == 1
    metrics.set(catalogue.CELL_LEFT_OUT, 1, 'cell1')
    assert value(metrics, catalogue.CELL_LEFT_OUT.name, cell='cell1') == 1


def test_histograms_put_values_into_buckets(metrics):
    for seconds in (0.0015, 0.5):
        metrics.observe(catalogue.STAGE_SECONDS, seconds, 'Query')
    name, point = catalogue.STAGE_SECONDS.name, 'Query'
    assert value(metrics, f'{name}_sum', extension_point=point) == 0.5015
    found = value(metrics, f'{name}_bucket', extension_point=point, le='0.002')
    assert found == 1

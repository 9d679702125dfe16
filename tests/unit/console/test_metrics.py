# SPDX-License-Identifier: Apache-2.0
"""Metrics of the console."""

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as parsed

from novasched import errors
from novasched.console import metrics
from novasched.observability.catalogue import FREE_SLOTS
from tests.support.records import console_answers

ODD = 'm1 "odd" \\ <b>\nflavor'
SLOTS = [['m1.large', 'az1', 1204], [ODD, 'az1', 0], ['m1.large', None, 3]]
HEALTH = {'status': 'pass', 'checks': {}, 'free_slots': SLOTS}


def samples(families):
    (family,) = families
    assert (family.name, family.type) == ('novasched_free_slots', 'gauge')
    assert family.documentation == FREE_SLOTS.doc
    assert all(set(each.labels) == set(FREE_SLOTS.labels) for each in family.samples)
    return {
        (each.labels['flavor'], each.labels['zone']): each.value
        for each in family.samples
    }


@pytest.mark.parametrize(
    ('accepted', 'parse'),
    [
        ('', parsed),
        ('text/plain', parsed),
        (
            'application/openmetrics-text; version=1.0.0',
            openmetrics.text_string_to_metric_families,
        ),
    ],
)
def test_slots_are_there_by_flavor_and_zone(accepted, parse):
    client = console_answers.client(health=HEALTH)
    answer = client.get('/metrics', headers={'Accept': accepted})
    assert answer.status_code == 200
    assert answer.content_type.startswith(accepted.partition(';')[0] or 'text/plain')
    expected = {('m1.large', 'az1'): 1204, (ODD, 'az1'): 0, ('m1.large', ''): 3}
    assert samples(parse(answer.text)) == expected


def test_without_flavors_there_is_no_number():
    text, _ = metrics.shown([], '')
    assert samples(parsed(text.decode())) == {}


def test_a_cloud_that_does_not_answer_is_no_metric():
    problem = errors.StoreFailed('the API database', 'it is away')
    answer = console_answers.client(health=problem).get('/metrics')
    assert answer.status_code == 503

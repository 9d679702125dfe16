# SPDX-License-Identifier: Apache-2.0
"""The stored form of a request is read by all releases."""

from novasched.decisions.request import summary
from novasched.decisions.request_summary import GroupSummary, RequestSummary
from novasched.runtime.typed_json import of_json, to_json
from tests.support.clouds import factories
from tests.support.records import decision_records
from tests.support.tables.cases import cases

WHOLE = decision_records.request(
    group=decision_records.GROUP,
    named={'host': 'h1', 'node': None},
    hints={'group': ['web'], 'reservation': None},
    ports=2,
)


def test_stored_form_is_read_and_written_unchanged():
    found = of_json(RequestSummary, WHOLE)
    assert to_json(found) == WHOLE
    assert found.group == GroupSummary('web', ['anti-affinity'], 3)


def test_stored_form_has_its_fields_in_one_order():
    made = to_json(summary(factories.request()))
    assert list(made) == list(decision_records.request())
    assert list(made['flavor']) == list(decision_records.FLAVOR)


@cases(
    'stored',
    ('of a later release', {**WHOLE, 'shape': 'round'}),
    (
        'with a part of a later release',
        {**WHOLE, 'group': {**WHOLE['group'], 'rules': {}}},
    ),
)
def test_unknown_fields_are_left_out(stored):
    assert to_json(of_json(RequestSummary, stored)) == WHOLE


def test_missing_fields_have_defaults():
    assert of_json(RequestSummary, {'zone': 'az1'}) == RequestSummary(zone='az1')


@cases(
    'asked, expected',
    ('none', {}, []),
    ('host alone', {'named': {'host': 'h1', 'node': None}}, ['host h1']),
    ('both', {'named': {'host': 'h1', 'node': 'n1'}}, ['host h1', 'node n1']),
)
def test_named_places(asked, expected):
    assert of_json(RequestSummary, asked).named_places == expected

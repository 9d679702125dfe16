# SPDX-License-Identifier: Apache-2.0
"""The stored form of a request is read by all releases."""

from novasched.decision_log.request import summary
from novasched.decision_log.request_summary import GroupSummary, RequestSummary
from tests import decision_records, factories
from tests.cases import cases

WHOLE = decision_records.request(
    group=decision_records.GROUP,
    named={'host': 'h1', 'node': None},
    hints={'group': ['web'], 'reservation': None},
    ports=2,
)


def test_stored_form_is_read_and_written_unchanged():
    found = RequestSummary.of_stored(WHOLE)
    assert found.to_stored() == WHOLE
    assert found.group == GroupSummary('web', ['anti-affinity'], 3)


def test_stored_form_has_its_fields_in_one_order():
    made = summary(factories.request()).to_stored()
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
    assert RequestSummary.of_stored(stored).to_stored() == WHOLE


def test_missing_fields_have_defaults():
    assert RequestSummary.of_stored({'zone': 'az1'}) == RequestSummary(zone='az1')


@cases(
    'asked, expected',
    ('none', {}, []),
    ('host alone', {'named': {'host': 'h1', 'node': None}}, ['host h1']),
    ('both', {'named': {'host': 'h1', 'node': 'n1'}}, ['host h1', 'node n1']),
)
def test_named_places(asked, expected):
    assert RequestSummary.of_stored(asked).named_places == expected

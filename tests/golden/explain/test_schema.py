# SPDX-License-Identifier: Apache-2.0
"""docs/reference/record.schema.json describes every explanation."""

import json
import pathlib
from dataclasses import replace

import jsonschema
import pytest

from novasched.decisions.decided import ServerDecision
from novasched.inspection.questions.explain import explanation
from novasched.runtime.typed_json import to_json
from tests.golden.explain import test_screens as screens
from tests.support.tables.cases import cases

SCHEMA = json.loads(
    (
        pathlib.Path(__file__).parents[3] / 'docs/reference/record.schema.json'
    ).read_text()
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize('name', screens.SCREENS)
def test_explanations(name):
    record, style = screens.SCREENS[name]
    made = json.loads(json.dumps(to_json(explanation(record, long=style.is_long))))
    VALIDATOR.validate(made)
    VALIDATOR.validate({'v': 1, 'explanations': [made, made]})


@pytest.mark.parametrize('name', screens.HOSTS)
def test_hosts(name):
    record, host = screens.HOSTS[name]
    of_host = ServerDecision(record).of_host(host)
    VALIDATOR.validate(to_json(replace(explanation(record), of_host=of_host)))


@cases(
    'wrong',
    ('no such blocker', {'blocker': 'weather'}),
    ('a field that is not described', {'more': 1}),
    ('a time that is a number', {'at': 5}),
)
def test_differing_explanation_is_not_valid(wrong):
    record, _ = screens.SCREENS['scheduled']
    assert not VALIDATOR.is_valid({**to_json(explanation(record)), **wrong})


def test_every_field_is_described():
    record, _ = screens.SCREENS['scheduled']
    assert list(to_json(explanation(record))) == list(
        SCHEMA['$defs']['explanation']['properties']
    )

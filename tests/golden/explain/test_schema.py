# SPDX-License-Identifier: Apache-2.0
"""docs/reference/record.schema.json describes every explanation."""

import dataclasses
import json
import pathlib
import typing
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any

import jsonschema
import pytest

from novasched.decisions.decided import ServerDecision
from novasched.decisions.request_summary import RequestSummary
from novasched.inspection.questions.explain import Explanation, explanation
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
    VALIDATOR.validate(
        to_json(dataclasses.replace(explanation(record), of_host=of_host))
    )


@cases(
    'wrong',
    ('no such blocker', {'blocker': 'weather'}),
    ('a field that is not described', {'more': 1}),
    ('a time that is a number', {'at': 5}),
)
def test_differing_explanation_is_not_valid(wrong):
    record, _ = screens.SCREENS['scheduled']
    assert not VALIDATOR.is_valid({**to_json(explanation(record)), **wrong})


# -- the schema that the dataclasses make


PLAIN = {str: 'string', int: 'integer', float: 'number', bool: 'boolean'}
IN_PART = (RequestSummary,)
"""What the schema describes in part, as readers may expect more of it."""


def made_of(kind):
    """Return the schema of a type, as far as a type tells."""
    if isinstance(kind, UnionType):
        kinds = [each for each in typing.get_args(kind) if each is not NoneType]
        return {'or null': made_of(kinds[0])}
    if kind in PLAIN:
        return PLAIN[kind]
    if dataclasses.is_dataclass(kind):
        types = typing.get_type_hints(kind)
        named = {}
        for each in dataclasses.fields(kind):
            made = made_of(types[each.name])
            is_omitted = 'is_omitted' in each.metadata
            name = each.metadata.get('name', each.name)
            named[name] = made['or null'] if is_omitted else made
        return 'object' if kind in IN_PART else named
    inner = typing.get_args(kind)
    if typing.get_origin(kind) is Mapping:
        return 'object' if inner[1] is Any else {'*': made_of(inner[1])}
    return [] if inner[0] is Any else [made_of(inner[0])]


def published(schema):
    """Return a part of the schema in the same form."""
    if '$ref' in schema:
        schema = SCHEMA['$defs'][schema['$ref'].rpartition('/')[2]]
    if 'oneOf' in schema:
        return {'or null': published(schema['oneOf'][0])}
    kind = schema.get('type', 'integer' if 'const' in schema else 'string')
    if isinstance(kind, list):
        return {'or null': published({**schema, 'type': kind[0]})}
    if kind == 'array':
        return [published(schema['items'])] if 'items' in schema else []
    if kind != 'object':
        return kind
    others = schema.get('additionalProperties')
    if others is False:
        found = schema['properties'].items()
        return {name: published(each) for name, each in found}
    return {'*': published(others)} if others else 'object'


def test_published_schema_has_the_fields_and_types_of_the_dataclasses():
    explained = SCHEMA['$defs']['explanation']
    assert published(explained) == made_of(Explanation)
    assert list(explained['properties']) == [
        each.name for each in dataclasses.fields(Explanation)
    ]

# SPDX-License-Identifier: Apache-2.0
"""Captured messages, and how to compare primitives.

novasched.rpc comes first: it chooses threads, and the libraries keep to that.
"""

import json
import pathlib

import pytest

import novasched.rpc  # noqa: F401

SAMPLES = pathlib.Path(__file__).parents[2] / 'samples'


@pytest.fixture(scope='session')
def sample():
    """Return what a sample file holds, by its path without the suffix."""

    def read(name):
        return json.loads((SAMPLES / f'{name}.json').read_text())

    return read


@pytest.fixture(scope='session')
def spec_sample(sample):
    """Return the spec_obj of a request sample, as a primitive."""

    def read(name):
        return sample(f'rpc/{name}.request')['message']['args']['spec_obj']

    return read


@pytest.fixture(scope='session')
def plain():
    """Return a function that makes a primitive comparable.

    Arrays of set fields are sorted and the changes left out.
    """
    schema = json.loads((SAMPLES / 'objects-schema.json').read_text())

    def value(kind, raw):
        if kind.startswith('set<') and raw is not None:
            return sorted(raw)
        if kind == 'list<set<int>>':
            return [sorted(item) for item in raw]
        if isinstance(raw, list | tuple):
            return [value('', item) for item in raw]
        return made(raw) if isinstance(raw, dict) else raw

    def made(primitive):
        if 'nova_object.name' not in primitive:
            return primitive
        kinds = schema[primitive['nova_object.name']]['fields']
        data = {
            name: value(kinds[name]['type'], raw)
            for name, raw in primitive['nova_object.data'].items()
        }
        envelope = {k: v for k, v in primitive.items() if k != 'nova_object.changes'}
        return {**envelope, 'nova_object.data': data}

    return made

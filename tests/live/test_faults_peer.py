# SPDX-License-Identifier: Apache-2.0
"""What a nova client makes of our errors.

The peer is a virtual environment with nova in it: $NOVASCHED_PEER, or
``.venv-peer`` beside the package.
"""

import json
import os
import pathlib
import subprocess
import traceback

import pytest

from novasched import errors
from novasched.rpc import faults

REPOSITORY = pathlib.Path(__file__).parents[2]
PEER = pathlib.Path(os.environ.get('NOVASCHED_PEER', REPOSITORY / '.venv-peer'))
READ = """
import json, sys
from oslo_messaging._drivers.common import deserialize_remote_exception
answers = []
for text in json.load(sys.stdin):
    made = deserialize_remote_exception(text, ['nova.exception'])
    kinds = [f'{kind.__module__}.{kind.__name__}' for kind in type(made).__mro__]
    answers.append({'kinds': kinds, 'text': str(made), 'args': made.args,
                    'kwargs': getattr(made, 'kwargs', None),
                    'exc_type': getattr(made, 'exc_type', None)})
json.dump(answers, sys.stdout)
"""
CASES = {
    'nova.exception.NoValidHost': errors.NoValidHost('There are none.'),
    'nova.exception.InvalidRequest': errors.InvalidRequest('no flavor'),
    'nova.exception.ObjectActionError': errors.UnsetField('policies'),
    'nova.exception.AllocationUpdateFailed': errors.AllocationUpdateFailed('c', 'busy'),
    'nova.exception.AllocationDeleteFailed': errors.AllocationDeleteFailed('c', 'no'),
    'nova.exception.NovaException': errors.RequestError('odd'),
    'builtins.ZeroDivisionError': errors.ExtensionFailed('a', ZeroDivisionError()),
    'UnsupportedObjectError': errors.UnsupportedObject('Widget'),
    'DBError': errors.StoreFailed('cell1', 'timed out'),
}


def failure(error):
    """Return the text that oslo.messaging's server puts in a reply."""
    wire = faults.to_wire(error)
    return json.dumps(
        {
            'class': type(wire).__name__,
            'module': type(wire).__module__,
            'message': str(wire),
            'tb': traceback.format_exception(wire),
            'args': wire.args,
            'kwargs': wire.kwargs,
        }
    )


@pytest.fixture(scope='module')
def answers():
    ended = subprocess.run(
        [PEER / 'bin' / 'python', '-W', 'ignore', '-c', READ],
        input=json.dumps([failure(error) for error in CASES.values()]),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return dict(zip(CASES, json.loads(ended.stdout), strict=True))


@pytest.mark.parametrize('kind', [kind for kind in CASES if '.' in kind])
def test_the_client_gets_the_class_itself(answers, kind):
    assert kind in answers[kind]['kinds']


@pytest.mark.parametrize('kind', [kind for kind in CASES if '.' not in kind])
def test_errors_unknown_to_nova_are_remote_errors(answers, kind):
    assert 'oslo_messaging.rpc.client.RemoteError' in answers[kind]['kinds']
    assert answers[kind]['exc_type'] == kind


@pytest.mark.parametrize('kind', CASES)
def test_the_text_stays_as_it_is(answers, kind):
    assert str(CASES[kind]) in answers[kind]['text']


def test_the_keywords_arrive(answers):
    update = answers['nova.exception.AllocationUpdateFailed']
    assert update['kwargs'] == {'consumer_uuid': 'c', 'error': 'busy', 'code': 500}
    assert answers['nova.exception.InvalidRequest']['kwargs'] == {'code': 400}

# SPDX-License-Identifier: Apache-2.0
"""Errors in the words of nova's exceptions."""

from __future__ import annotations

import json
import pathlib
import sys

import pytest
from oslo_messaging._drivers.common import serialize_remote_exception

from novasched import errors
from novasched.rpc import faults

SAMPLES = pathlib.Path(__file__).parents[2] / 'samples'
KEYS = ('class', 'module', 'message', 'args', 'kwargs')


class SiteError(errors.InvalidRequest):
    """An error that the table does not know."""


class PluginError(Exception):
    """An error that a plugin defines for itself."""


class NovaLikeError(Exception):
    """What a plugin that imports nova may raise."""

    __module__ = faults.NOVA

    def __init__(self, text):
        super().__init__(text)
        self.kwargs = {'code': 404}


def on_the_wire(error):
    try:
        raise faults.to_wire(error)
    except Exception:  # noqa: BLE001
        wire = json.loads(serialize_remote_exception(sys.exc_info()))
    return {key: wire[key] for key in KEYS}


def sampled(path):
    wire = json.loads((SAMPLES / path).read_text())['failure_decoded']
    return {key: wire[key] for key in KEYS}


@pytest.mark.parametrize(
    ('error', 'sample'),
    [
        pytest.param(
            errors.NoValidHost(''),
            'failures/novalidhost-no-candidates.reply.json',
            id='no candidates',
        ),
        pytest.param(
            errors.NoValidHost('There are not enough hosts available.'),
            'failures/novalidhost-not-enough-hosts.reply.json',
            id='not enough hosts',
        ),
        pytest.param(
            errors.NoValidHost('No such host - host: nosuch node: None '),
            'failures/novalidhost-no-such-host.reply.json',
            id='no such host',
        ),
    ],
)
def test_samples_are_reproduced(error, sample):
    assert on_the_wire(error) == sampled(sample)


@pytest.mark.parametrize(
    ('error', 'module', 'name', 'kwargs'),
    [
        pytest.param(
            errors.InvalidRequest('no flavor'),
            'nova.exception',
            'InvalidRequest',
            {'code': 400},
            id='an invalid request',
        ),
        pytest.param(
            errors.UnsetField('policies'),
            'nova.exception',
            'ObjectActionError',
            {
                'action': 'obj_load_attr',
                'reason': 'attribute policies not lazy-loadable',
                'code': 500,
            },
            id='a field that was never set',
        ),
        pytest.param(
            errors.UnsupportedObject('Widget'),
            'oslo_versionedobjects.exception',
            'UnsupportedObjectError',
            {'objtype': 'Widget', 'code': 500},
            id='an object of unknown name',
        ),
        pytest.param(
            errors.InvalidRequestGroup('empty'),
            'builtins',
            'ValueError',
            {},
            id='a group of nothing',
        ),
        pytest.param(
            errors.InvalidDemand('Invalid TPM version'),
            'nova.exception',
            'Invalid',
            {'code': 400},
            id='nonsense in the flavor',
        ),
        pytest.param(
            errors.FlavorImageConflict('two TPMs'),
            'nova.exception',
            'FlavorImageConflict',
            {'code': 500},
            id='flavor and image',
        ),
        pytest.param(
            errors.ImageCPUPinningForbidden('more than the flavor'),
            'nova.exception',
            'ImageCPUPinningForbidden',
            {'code': 403},
            id='an image that may not',
        ),
        pytest.param(
            errors.InvalidMachineType(
                'no q35', mtype='pc', image_id='1', image_name=None, reason='why'
            ),
            'nova.exception',
            'InvalidMachineType',
            {
                'mtype': 'pc',
                'image_id': '1',
                'image_name': None,
                'reason': 'why',
                'code': 400,
            },
            id='a machine type',
        ),
        pytest.param(
            errors.RequestGroupSuffixConflict('twice', suffix='1'),
            'nova.exception',
            'RequestGroupSuffixConflict',
            {'suffix': '1', 'code': 500},
            id='a suffix twice',
        ),
        pytest.param(
            errors.AllocationUpdateFailed('c0ffee', 'conflict'),
            'nova.exception',
            'AllocationUpdateFailed',
            {'consumer_uuid': 'c0ffee', 'error': 'conflict', 'code': 500},
            id='a consumer that changed',
        ),
        pytest.param(
            errors.AlreadyClaimed('c0ffee', 'no move'),
            'nova.exception',
            'AllocationUpdateFailed',
            {'consumer_uuid': 'c0ffee', 'error': 'no move', 'code': 500},
            id='a consumer that holds something already',
        ),
        pytest.param(
            errors.AllocationDeleteFailed('c0ffee', 'status 500'),
            'nova.exception',
            'AllocationDeleteFailed',
            {'consumer_uuid': 'c0ffee', 'error': 'status 500', 'code': 500},
            id='an allocation that stays',
        ),
        pytest.param(
            errors.MetricNotFound('cpu.percent', 'h1', 'n1'),
            'nova.exception',
            'ComputeHostMetricNotFound',
            {'name': 'cpu.percent', 'host': 'h1', 'node': 'n1', 'code': 404},
            id='a metric that a host lacks',
        ),
        pytest.param(
            errors.StoreFailed('cell1', 'timed out'),
            'oslo_db.exception',
            'DBError',
            {},
            id='a database',
        ),
        pytest.param(
            errors.NetworkFailed('Failed to access port c0ffee: 500-'),
            'nova.exception',
            'NovaException',
            {'code': 500},
            id='a network service that fails',
        ),
        pytest.param(
            errors.PortNotFound('c0ffee'),
            'nova.exception',
            'PortNotFound',
            {'port_id': 'c0ffee', 'code': 404},
            id='a port that is not there',
        ),
        pytest.param(
            errors.NetworkUnauthorized('Not authorized.'),
            'nova.exception',
            'Unauthorized',
            {'code': 401},
            id='a network service that does not know who asks',
        ),
        pytest.param(
            errors.NetworkForbidden('no'),
            'nova.exception',
            'Forbidden',
            {'code': 403},
            id='a network service that does not tell',
        ),
        pytest.param(
            errors.ExtensionFailed('MyFilter', KeyError('x')),
            'builtins',
            'KeyError',
            {},
            id="a plugin's built-in error",
        ),
        pytest.param(
            errors.ExtensionFailed('MyFilter', PluginError('x')),
            __name__,
            'PluginError',
            {},
            id="a plugin's own error",
        ),
        pytest.param(
            errors.RequestError('odd'),
            'nova.exception',
            'NovaException',
            {'code': 500},
            id='an error without a name',
        ),
        pytest.param(
            SiteError('odd'),
            'nova.exception',
            'InvalidRequest',
            {'code': 400},
            id='an error that the table lacks',
        ),
    ],
)
def test_class_text_and_keywords(error, module, name, kwargs):
    assert on_the_wire(error) == {
        'class': name,
        'module': module,
        'message': str(error),
        'args': [str(error)],
        'kwargs': kwargs,
    }


def test_a_plugin_may_raise_our_errors():
    error = errors.ExtensionFailed('MyFilter', errors.NoValidHost('by rule'))
    assert on_the_wire(error)['class'] == 'NoValidHost'


def test_a_plugin_may_raise_nova_errors():
    problem = NovaLikeError('gone')
    assert faults.to_wire(errors.ExtensionFailed('MyFilter', problem)) is problem


def test_every_request_error_but_a_plugins_stands_in_the_table():
    def tree(kind):
        return {kind}.union(*(tree(sub) for sub in kind.__subclasses__()))

    ours = {
        kind
        for kind in tree(errors.RequestError)
        if kind.__module__ == 'novasched.errors'
    }
    assert ours - {errors.ExtensionFailed} == faults.TABLE.keys()

# SPDX-License-Identifier: Apache-2.0
"""Errors in the words of nova's exceptions."""

import json
import pathlib
import sys

import pytest
from oslo_messaging._drivers.common import serialize_remote_exception

from novasched import errors
from novasched.rpc import faults
from tests.support.tables.cases import cases

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


@cases(
    'error, sample',
    (
        'no candidates',
        errors.NoValidHost(''),
        'failures/novalidhost-no-candidates.reply.json',
    ),
    (
        'not enough hosts',
        errors.NoValidHost('There are not enough hosts available.'),
        'failures/novalidhost-not-enough-hosts.reply.json',
    ),
    (
        'no such host',
        errors.NoValidHost('No such host - host: nosuch node: None '),
        'failures/novalidhost-no-such-host.reply.json',
    ),
)
def test_samples_are_reproduced(error, sample):
    assert on_the_wire(error) == sampled(sample)


def said(error, module, name, kwargs):
    text = str(error)
    return dict(zip(KEYS, (name, module, text, [text], kwargs), strict=True))


@pytest.mark.parametrize(
    ('error', 'name', 'kwargs'),
    [
        (errors.InvalidRequest('no flavor'), 'InvalidRequest', {'code': 400}),
        (
            errors.UnsetField('policies'),
            'ObjectActionError',
            {
                'action': 'obj_load_attr',
                'reason': 'attribute policies not lazy-loadable',
                'code': 500,
            },
        ),
        (errors.InvalidDemand('Invalid TPM version'), 'Invalid', {'code': 400}),
        (errors.FlavorImageConflict('two TPMs'), 'FlavorImageConflict', {'code': 500}),
        (
            errors.ImageCPUPinningForbidden('more than the flavor'),
            'ImageCPUPinningForbidden',
            {'code': 403},
        ),
        (
            errors.InvalidMachineType(
                'no q35', mtype='pc', image_id='1', image_name=None, reason='why'
            ),
            'InvalidMachineType',
            {
                'mtype': 'pc',
                'image_id': '1',
                'image_name': None,
                'reason': 'why',
                'code': 400,
            },
        ),
        (
            errors.RequestGroupSuffixConflict('twice', suffix='1'),
            'RequestGroupSuffixConflict',
            {'suffix': '1', 'code': 500},
        ),
        (
            errors.AllocationUpdateFailed('c0ffee', 'conflict'),
            'AllocationUpdateFailed',
            {'consumer_uuid': 'c0ffee', 'error': 'conflict', 'code': 500},
        ),
        (
            errors.AlreadyClaimed('c0ffee', 'no move'),
            'AllocationUpdateFailed',
            {'consumer_uuid': 'c0ffee', 'error': 'no move', 'code': 500},
        ),
        (
            errors.AllocationDeleteFailed('c0ffee', 'status 500'),
            'AllocationDeleteFailed',
            {'consumer_uuid': 'c0ffee', 'error': 'status 500', 'code': 500},
        ),
        (
            errors.MetricNotFound('cpu.percent', 'h1', 'n1'),
            'ComputeHostMetricNotFound',
            {'name': 'cpu.percent', 'host': 'h1', 'node': 'n1', 'code': 404},
        ),
        (
            errors.NetworkFailed('Failed to access port c0ffee: 500-'),
            'NovaException',
            {'code': 500},
        ),
        (
            errors.PortNotFound('c0ffee'),
            'PortNotFound',
            {'port_id': 'c0ffee', 'code': 404},
        ),
        (errors.NetworkUnauthorized('Not authorized.'), 'Unauthorized', {'code': 401}),
        (errors.NetworkForbidden('no'), 'Forbidden', {'code': 403}),
        (errors.RequestError('odd'), 'NovaException', {'code': 500}),
        (SiteError('odd'), 'InvalidRequest', {'code': 400}),
    ],
)
def test_class_text_and_keywords(error, name, kwargs):
    assert on_the_wire(error) == said(error, 'nova.exception', name, kwargs)


@pytest.mark.parametrize(
    ('error', 'module', 'name', 'kwargs'),
    [
        (
            errors.UnsupportedObject('Widget'),
            'oslo_versionedobjects.exception',
            'UnsupportedObjectError',
            {'objtype': 'Widget', 'code': 500},
        ),
        (errors.InvalidRequestGroup('empty'), 'builtins', 'ValueError', {}),
        (errors.StoreFailed('cell1', 'timed out'), 'oslo_db.exception', 'DBError', {}),
        (errors.ExtensionFailed('MyFilter', KeyError('x')), 'builtins', 'KeyError', {}),
        (
            errors.ExtensionFailed('MyFilter', PluginError('x')),
            __name__,
            'PluginError',
            {},
        ),
    ],
)
def test_errors_that_are_not_novas(error, module, name, kwargs):
    assert on_the_wire(error) == said(error, module, name, kwargs)


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

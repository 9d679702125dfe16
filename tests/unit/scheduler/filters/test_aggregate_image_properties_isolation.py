# SPDX-License-Identifier: Apache-2.0
"""Aggregates that are for images with some properties."""

from __future__ import annotations

import pytest

from novasched.scheduler.filters.aggregate import (
    AggregateImagePropertiesIsolation,
)
from novasched.scheduler.reasons import REJECTED, Code
from tests import factories
from tests.configuration import make_conf
from tests.verdicts import assert_verdict


def host_in(*metadata):
    aggregates = [factories.aggregate(n, **values) for n, values in enumerate(metadata)]
    return factories.hosts(aggregates=[tuple(aggregates)])


WINDOWS = {'os_distro': 'windows'}
LINUX = {'os_distro': 'linux'}


@pytest.mark.parametrize(
    ('metadata', 'image', 'expected'),
    [
        pytest.param([], LINUX, True, id='in no aggregate'),
        pytest.param([WINDOWS], WINDOWS, True, id='the same'),
        pytest.param([WINDOWS], LINUX, False, id='another'),
        pytest.param([WINDOWS], {}, True, id='the image does not say'),
        pytest.param([WINDOWS], None, True, id='no image'),
        pytest.param([{'os_distro': 'windows, linux'}], LINUX, True, id='one of two'),
        pytest.param([WINDOWS, LINUX], LINUX, True, id='one of two aggregates'),
        pytest.param([{'mykey': 'x'}], LINUX, True, id='a key of something else'),
        pytest.param(
            [{'hw_qemu_guest_agent': 'true'}],
            {'hw_qemu_guest_agent': 'yes'},
            False,
            id='truth is written True',
        ),
        pytest.param(
            [{'hw_qemu_guest_agent': 'True'}],
            {'hw_qemu_guest_agent': 'yes'},
            True,
            id='true',
        ),
        pytest.param(
            [{'hw_qemu_guest_agent': 'True'}],
            {'hw_qemu_guest_agent': 'no'},
            True,
            id='false goes anywhere',
        ),
        pytest.param([{'hw_cpu_cores': '4'}], {'hw_cpu_cores': '4'}, True, id='number'),
        pytest.param([{'hw_video_ram': '4'}], {'hw_video_ram': '0'}, True, id='zero'),
        pytest.param(
            [{'hw_numa_mem': '1'}], {'hw_numa_mem.0': '1'}, False, id='a list'
        ),
        pytest.param(
            [{'hw_architecture': 'x86_64'}],
            {'architecture': 'amd64'},
            True,
            id='an old name in the image',
        ),
        pytest.param(
            [{'architecture': 'x86_64'}],
            {'architecture': 'i686'},
            True,
            id='an old name in the aggregate',
        ),
        pytest.param([{'os_distro': ''}], LINUX, False, id='nothing is welcome'),
    ],
)
def test_properties(metadata, image, expected):
    filter_ = AggregateImagePropertiesIsolation()
    request = factories.request(image=image)
    assert_verdict(filter_, host_in(*metadata), request, expected)


@pytest.mark.parametrize(
    ('separator', 'metadata', 'image', 'expected'),
    [
        pytest.param(
            '.', {'hw.os_distro': 'windows'}, LINUX, True, id='no property has the name'
        ),
        pytest.param('_', WINDOWS, LINUX, True, id='another namespace'),
        pytest.param(
            '_',
            {'hw_architecture': 'x86_64'},
            {'hw_architecture': 'aarch64'},
            False,
            id='the whole name',
        ),
    ],
)
def test_namespace(separator, metadata, image, expected):
    filter_ = AggregateImagePropertiesIsolation('hw', separator)
    request = factories.request(image=image)
    assert_verdict(filter_, host_in(metadata), request, expected)


def test_it_runs_on_rebuild():
    assert AggregateImagePropertiesIsolation.RUN_ON_REBUILD


def test_options():
    conf = make_conf()
    assert AggregateImagePropertiesIsolation.from_conf(conf).prefix == ''
    name = 'aggregate_image_properties_isolation_namespace'
    conf.set_override(name, 'hw', 'filter_scheduler')
    assert AggregateImagePropertiesIsolation.from_conf(conf).prefix == 'hw.'


@pytest.mark.parametrize(
    ('image', 'reason'),
    [
        (
            {'os_distro': 'beos'},
            (
                Code.IMAGE_PROPERTY_DIFFERS,
                'for images with os_distro linux, windows, not beos',
            ),
        ),
        (LINUX, REJECTED),
    ],
)
def test_why(image, reason):
    host = host_in(WINDOWS, LINUX).state(0)
    request = factories.request(image=image)
    assert AggregateImagePropertiesIsolation().why(host, request) == reason

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
from tests.tables import cases
from tests.verdicts import assert_verdict


def host_in(*metadata):
    aggregates = [factories.aggregate(n, **values) for n, values in enumerate(metadata)]
    return factories.hosts(aggregates=[tuple(aggregates)])


WINDOWS = {'os_distro': 'windows'}
LINUX = {'os_distro': 'linux'}


@cases(
    'metadata, image, expected',
    ('in no aggregate', [], LINUX, True),
    ('the same', [WINDOWS], WINDOWS, True),
    ('another', [WINDOWS], LINUX, False),
    ('the image does not say', [WINDOWS], {}, True),
    ('no image', [WINDOWS], None, True),
    ('one of two', [{'os_distro': 'windows, linux'}], LINUX, True),
    ('one of two aggregates', [WINDOWS, LINUX], LINUX, True),
    ('a key of something else', [{'mykey': 'x'}], LINUX, True),
    (
        'truth is written True',
        [{'hw_qemu_guest_agent': 'true'}],
        {'hw_qemu_guest_agent': 'yes'},
        False,
    ),
    ('true', [{'hw_qemu_guest_agent': 'True'}], {'hw_qemu_guest_agent': 'yes'}, True),
    (
        'false goes anywhere',
        [{'hw_qemu_guest_agent': 'True'}],
        {'hw_qemu_guest_agent': 'no'},
        True,
    ),
    ('number', [{'hw_cpu_cores': '4'}], {'hw_cpu_cores': '4'}, True),
    ('zero', [{'hw_video_ram': '4'}], {'hw_video_ram': '0'}, True),
    ('a list', [{'hw_numa_mem': '1'}], {'hw_numa_mem.0': '1'}, False),
    (
        'an old name in the image',
        [{'hw_architecture': 'x86_64'}],
        {'architecture': 'amd64'},
        True,
    ),
    (
        'an old name in the aggregate',
        [{'architecture': 'x86_64'}],
        {'architecture': 'i686'},
        True,
    ),
    ('nothing is welcome', [{'os_distro': ''}], LINUX, False),
)
def test_properties(metadata, image, expected):
    filter_ = AggregateImagePropertiesIsolation()
    request = factories.request(image=image)
    assert_verdict(filter_, host_in(*metadata), request, expected)


@cases(
    'separator, metadata, image, expected',
    ('no property has the name', '.', {'hw.os_distro': 'windows'}, LINUX, True),
    ('another namespace', '_', WINDOWS, LINUX, True),
    (
        'the whole name',
        '_',
        {'hw_architecture': 'x86_64'},
        {'hw_architecture': 'aarch64'},
        False,
    ),
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

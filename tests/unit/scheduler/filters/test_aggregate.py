# SPDX-License-Identifier: Apache-2.0
"""Aggregates that are for some images, flavors, extra specs or projects."""

import pytest

from novasched.scheduler.filters.aggregate import (
    AggregateImagePropertiesIsolation,
    AggregateInstanceExtraSpecsFilter,
    AggregateMultiTenancyIsolation,
    AggregateTypeAffinityFilter,
)
from novasched.scheduler.reasons import REJECTED, Code
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases
from tests.support.tables.verdicts import assert_verdict

SCOPE = 'aggregate_instance_extra_specs:'
WINDOWS = {'os_distro': 'windows'}
LINUX = {'os_distro': 'linux'}
AGENT = 'hw_qemu_guest_agent'


def host_in(*metadata):
    aggregates = [factories.aggregate(n, **values) for n, values in enumerate(metadata)]
    return factories.hosts(aggregates=[tuple(aggregates)])


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
    ('truth is written True', [{AGENT: 'true'}], {AGENT: 'yes'}, False),
    ('true', [{AGENT: 'True'}], {AGENT: 'yes'}, True),
    ('false goes anywhere', [{AGENT: 'True'}], {AGENT: 'no'}, True),
    ('number', [{'hw_cpu_cores': '4'}], {'hw_cpu_cores': '4'}, True),
    ('zero', [{'hw_video_ram': '4'}], {'hw_video_ram': '0'}, True),
    ('a list', [{'hw_numa_mem': '1'}], {'hw_numa_mem.0': '1'}, False),
    ('an old name', [{'hw_architecture': 'x86_64'}], {'architecture': 'amd64'}, True),
    ('an old key', [{'architecture': 'x86_64'}], {'architecture': 'i686'}, True),
    ('nothing is welcome', [{'os_distro': ''}], LINUX, False),
)
def test_image_properties(metadata, image, expected):
    filter_ = AggregateImagePropertiesIsolation()
    request = factories.request(image=image)
    assert_verdict(filter_, host_in(*metadata), request, expected)


@cases(
    'separator, metadata, image, expected',
    ('no property has the name', '.', {'hw.os_distro': 'windows'}, LINUX, True),
    ('another namespace', '_', WINDOWS, LINUX, True),
    ('the whole name', '_', {AGENT: 'False'}, {AGENT: 'yes'}, False),
)
def test_namespace(separator, metadata, image, expected):
    filter_ = AggregateImagePropertiesIsolation('hw', separator)
    request = factories.request(image=image)
    assert_verdict(filter_, host_in(metadata), request, expected)


def test_image_properties_count_on_rebuild():
    assert AggregateImagePropertiesIsolation.RUN_ON_REBUILD


def test_the_namespace_is_an_option():
    conf = make_conf()
    assert AggregateImagePropertiesIsolation.from_conf(conf).prefix == ''
    name = 'aggregate_image_properties_isolation_namespace'
    conf.set_override(name, 'hw', 'filter_scheduler')
    assert AggregateImagePropertiesIsolation.from_conf(conf).prefix == 'hw.'


@cases(
    'metadata, extra_specs, expected',
    ('nothing asked', [], {}, True),
    ('no scope', [{'ssd': 'true'}], {'ssd': 'true'}, True),
    ('the scope', [{'ssd': 'true'}], {f'{SCOPE}ssd': 'true'}, True),
    ('in no aggregate', [], {'ssd': 'true'}, False),
    ('other scopes', [], {'capabilities:ssd': 'true', 'hw:cpu_policy': 'x'}, True),
    ('an alternative', [{'opt': 'a,b'}], {'opt': 'b'}, True),
    ('the requirement is not split', [{'opt': 'a,b'}], {'opt': 'a,b'}, False),
    ('two aggregates', [{'m': 'a'}, {'m': 'b'}], {'m': 'a'}, True),
    ('another value satisfies it', [{'m': 'a,b'}], {'m': 's!= a'}, True),
    ('a number', [{'m': '5'}], {'m': '>= 3'}, True),
    ('split at the first colon', [{'a:b': 'x'}], {f'{SCOPE}a:b': 'x'}, True),
    ('empty', [{'m': ''}], {'m': ''}, True),
    ('all must hold', [{'m': '1', 'n': '1'}], {'m': '1', 'n': '2'}, False),
)
def test_extra_specs(metadata, extra_specs, expected):
    filter_ = AggregateInstanceExtraSpecsFilter()
    request = factories.request(extra_specs=extra_specs)
    assert_verdict(filter_, host_in(*metadata), request, expected)


def test_a_number_compared_with_text_raises_as_in_nova():
    request = factories.request(extra_specs={'m': '>= 3'})
    with pytest.raises(ValueError):
        AggregateInstanceExtraSpecsFilter().apply(host_in({'m': 'five'}), request)


P1, P2 = {'filter_tenant_id': 'p1'}, {'filter_tenant_id': 'p2'}


@cases(
    'metadata, expected',
    ('in no aggregate', [], True),
    ('for no project', [{'x': 'y'}], True),
    ('for the project', [P1], True),
    ('for another', [P2], False),
    ('for two', [{'filter_tenant_id': 'p2, p1'}], True),
    ('a key with a number', [{'filter_tenant_id3': 'p1'}], True),
    ('a key with a letter', [{'filter_tenant_idX': 'p9'}], False),
    ('two keys', [{**P2, 'filter_tenant_id2': 'p1'}], True),
    ('for one of two aggregates', [P2, P1], True),
    ('an aggregate for all does not help', [P2, {'x': 'y'}], False),
    ('for nobody', [{'filter_tenant_id': ''}], False),
)
def test_projects(metadata, expected):
    filter_ = AggregateMultiTenancyIsolation()
    request = factories.request(project_id='p1')
    assert_verdict(filter_, host_in(*metadata), request, expected)


SMALL, TINY = {'instance_type': 'small'}, {'instance_type': 'tiny'}


@cases(
    'metadata, expected',
    ('in no aggregate', [], True),
    ('for the flavor', [SMALL], True),
    ('for two', [{'instance_type': 'tiny, small'}], True),
    ('for another', [TINY], False),
    ('not by its start', [{'instance_type': 'smal'}], False),
    ('for one of two aggregates', [TINY, SMALL], True),
    ('for none', [{'instance_type': ''}], False),
    ('another key', [{'flavor': 'tiny'}], True),
    ('an aggregate for all does not help', [TINY, {'x': 'y'}], False),
)
def test_flavors(metadata, expected):
    filter_ = AggregateTypeAffinityFilter()
    assert_verdict(filter_, host_in(*metadata), factories.request(), expected)


IMAGES = AggregateImagePropertiesIsolation()
SPECS = AggregateInstanceExtraSpecsFilter()


@cases(
    'filter_, metadata, asked, reason',
    (
        'an image',
        IMAGES,
        [WINDOWS, LINUX],
        {'image': {'os_distro': 'beos'}},
        (
            Code.IMAGE_PROPERTY_DIFFERS,
            'for images with os_distro linux, windows, not beos',
        ),
    ),
    ('no image of others', IMAGES, [WINDOWS, LINUX], {'image': LINUX}, REJECTED),
    (
        'an extra spec that is nowhere',
        SPECS,
        [{'m': '1'}],
        {'extra_specs': {'m': '1', 'n': '2'}},
        (Code.EXTRA_SPEC_MISSING, 'extra spec n is not in an aggregate'),
    ),
    (
        'an extra spec',
        SPECS,
        [{'m': 'b,a'}],
        {'extra_specs': {'m': 'c'}},
        (Code.EXTRA_SPEC_DIFFERS, 'm is a, b, not c'),
    ),
    ('no extra spec', SPECS, [], {}, (Code.REJECTED, 'rejected')),
    (
        'a project',
        AggregateMultiTenancyIsolation(),
        [{'filter_tenant_id': 'p3,p2'}],
        {'project_id': 'p1'},
        (Code.PROJECT_NOT_ALLOWED, 'aggregate agg0 is for projects p2, p3, not p1'),
    ),
    (
        'a flavor',
        AggregateTypeAffinityFilter(),
        [{'instance_type': 'tiny,large'}],
        {},
        (
            Code.FLAVOR_NOT_ALLOWED,
            'aggregate agg0 is for flavors large, tiny, not small',
        ),
    ),
)
def test_why(filter_, metadata, asked, reason):
    host = host_in(*metadata).state(0)
    assert filter_.why(host, factories.request(**asked)) == reason

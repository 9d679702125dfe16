# SPDX-License-Identifier: Apache-2.0
"""Hosts that are kept for some images."""

import pytest

from novasched.objects.image_meta import ImageMeta
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters.isolated_hosts import IsolatedHostsFilter
from novasched.scheduler.reasons import Code
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

HOSTS = factories.hosts(2)


def request(image_id):
    made = factories.request(image={})
    if image_id is not None:
        made.image.id = image_id
    return made


@pytest.mark.parametrize('image_id', ['I1', 'I2', None])
@cases(
    'images, hosts, restrict, expected',
    ('restricted', ['I1'], ['h1'], True, {'I1': ['h1'], 'other': ['h2']}),
    ('open', ['I1'], ['h1'], False, {'I1': ['h1'], 'other': ['h1', 'h2']}),
    ('no image', [], ['h1'], True, {'I1': ['h2'], 'other': ['h2']}),
    ('no image, open', [], ['h1'], False, {'I1': ['h1', 'h2'], 'other': ['h1', 'h2']}),
    ('no host', ['I1'], [], True, {'I1': [], 'other': ['h1', 'h2']}),
    ('no host, open', ['I1'], [], False, {'I1': [], 'other': ['h1', 'h2']}),
)
def test_isolation(images, hosts, restrict, expected, image_id):
    filter_ = IsolatedHostsFilter(images, hosts, restrict)
    survivors = filter_.apply(HOSTS, request(image_id)).host.tolist()
    assert survivors == expected['I1' if image_id == 'I1' else 'other']


@cases(
    'made',
    ('no image', factories.request()),
    ('an image that was never set', RequestSpec()),
    ('an image without an id', RequestSpec(image=ImageMeta())),
)
def test_requests_without_an_image(made):
    filter_ = IsolatedHostsFilter(['I1'], ['h1'])
    assert filter_.apply(HOSTS, made).host.tolist() == ['h2']


def test_it_runs_on_rebuild():
    assert IsolatedHostsFilter.RUN_ON_REBUILD


def test_options():
    conf = make_conf()
    filter_ = IsolatedHostsFilter.from_conf(conf)
    assert (filter_.images, filter_.hosts, filter_.restrict) == (set(), set(), True)
    conf.set_override('isolated_images', ['I1'], 'filter_scheduler')
    conf.set_override('isolated_hosts', ['h1'], 'filter_scheduler')
    name = 'restrict_isolated_hosts_to_isolated_images'
    conf.set_override(name, False, 'filter_scheduler')
    filter_ = IsolatedHostsFilter.from_conf(conf)
    assert (filter_.images, filter_.hosts, filter_.restrict) == ({'I1'}, {'h1'}, False)


@pytest.mark.parametrize(
    ('image_id', 'code', 'text'),
    [
        ('I1', Code.HOST_NOT_ISOLATED, 'image I1 is isolated, the host is not'),
        ('I2', Code.HOST_ISOLATED, 'the host is isolated, image I2 is not'),
    ],
)
def test_why(image_id, code, text):
    filter_ = IsolatedHostsFilter(['I1'], ['h1'])
    assert filter_.why(HOSTS.state(0), request(image_id)) == (code, text)

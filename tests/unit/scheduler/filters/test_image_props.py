# SPDX-License-Identifier: Apache-2.0
"""What an image needs of its host."""

import pytest

from novasched.scheduler.filters.image_props import (
    ImagePropertiesFilter,
    address_bits,
)
from novasched.scheduler.reasons import Code
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

K = [['x86_64', 'kvm', 'hvm'], ['i686', 'kvm', 'hvm']]
XEN = [['x86_64', 'xen', 'xen']]
BITS = '{"maxphysaddr": {"bits": 42}}'


def passes(image, supported=K, version=6000000, cpu_info=None, filter_=None):
    hosts = factories.hosts(
        supported_instances=[supported],
        hypervisor_version=[version],
        cpu_info=[cpu_info],
    )
    filter_ = filter_ or ImagePropertiesFilter()
    return len(filter_.apply(hosts, factories.request(image=image))) == 1


@cases(
    'image, supported, expected',
    ('asks nothing', {}, [], True),
    ('no image', None, [], True),
    ('another name', {'hw_architecture': 'amd64'}, K, True),
    ('a legacy property', {'architecture': 'i386'}, K, True),
    ('not there', {'hw_architecture': 'aarch64'}, K, False),
    ('hypervisor', {'img_hv_type': 'kvm'}, K, True),
    ('another hypervisor', {'img_hv_type': 'xen'}, K, False),
    ('mode', {'hw_vm_mode': 'hv'}, K, True),
    ('mode of another', {'hw_vm_mode': 'pv'}, K + XEN, True),
    ('any position', {'img_hv_type': 'xen'}, [['x86_64', 'kvm', 'xen']], True),
    (
        'one must have all',
        {'hw_architecture': 'i686', 'img_hv_type': 'kvm'},
        [['x86_64', 'kvm', 'hvm'], ['i686', 'xen', 'xen']],
        False,
    ),
    ('host supports none', {'hw_architecture': 'x86_64'}, [], False),
    ('says nothing', {'hw_architecture': 'x86_64'}, None, False),
)
def test_supported_instances(image, supported, expected):
    assert passes(image, supported) is expected


@pytest.mark.parametrize(
    ('predicate', 'version', 'expected'),
    [
        ('>=6.0', 6000000, True),
        ('>=6.1', 6000000, False),
        ('>=6.0,<6.2', 6000000, True),
        ('==6.2', 6002000, True),
        ('!=6.2.0', 6002000, False),
        ('>=9', float('nan'), True),
        ('>=9', 0, True),
    ],
)
def test_hypervisor_version(predicate, version, expected):
    image = {'img_hv_type': 'kvm', 'img_hv_requested_version': predicate}
    assert passes(image, version=version) is expected


def test_a_version_alone_is_not_looked_at():
    assert passes({'img_hv_requested_version': '>=9'})


@pytest.mark.parametrize(
    ('bits', 'cpu_info', 'expected'),
    [
        (42, BITS, True),
        (43, BITS, False),
        (43, '{}', True),
        (43, None, True),
        (43, '{"maxphysaddr": {"bits": 0}}', True),
    ],
)
def test_address_width(bits, cpu_info, expected):
    image = {'img_hv_type': 'kvm', 'hw_maxphysaddr_bits': bits}
    assert passes(image, cpu_info=cpu_info) is expected


def test_an_address_width_alone_is_not_looked_at():
    assert passes({'hw_maxphysaddr_bits': 43}, cpu_info=BITS)


@cases(
    'cpu_info',
    ('no JSON', 'notjson'),
    ('no object', '[]'),
    ('null', '{"maxphysaddr": null}'),
    ('no bits', '{"maxphysaddr": []}'),
    ('empty', ''),
    ('infinite', '{"maxphysaddr": {"bits": 1e999}}'),
    ('too deep', '[' * 100_000),
)
def test_cpu_info_that_does_not_tell_its_address_width(cpu_info):
    assert address_bits(cpu_info) == 0


@cases(
    'image, expected',
    ('image does not say', {}, False),
    ('no image', None, False),
    ('image says', {'hw_architecture': 'aarch64'}, True),
)
def test_default_architecture(image, expected):
    conf = make_conf()
    conf.set_override(
        'image_properties_default_architecture', 'x86_64', 'filter_scheduler'
    )
    filter_ = ImagePropertiesFilter.from_conf(conf)
    assert passes(image, [['aarch64', 'kvm', 'hvm']], filter_=filter_) is expected


@pytest.mark.parametrize(('image', 'columns', 'code', 'text'), [
    ({}, {'supported_instances': [[]]}, Code.IMAGE_NOT_SUPPORTED,
     'image needs kvm, x86_64, host advertises no supported instances'),
    ({}, {'supported_instances': [XEN]}, Code.IMAGE_NOT_SUPPORTED,
     'image needs kvm, x86_64, in no supported instance type of the host'),
    ({'img_hv_requested_version': '>=9'},
     {'supported_instances': [K], 'hypervisor_version': [6002000]},
     Code.HYPERVISOR_VERSION_DIFFERS,
     'image needs hypervisor version >=9, host has 6.2.0'),
    ({'img_hv_requested_version': '>=6', 'hw_maxphysaddr_bits': 43},
     {'supported_instances': [K], 'cpu_info': [BITS]}, Code.ADDRESS_TOO_NARROW,
     'image needs 43 bits of physical address, host has 42'),
])  # fmt: skip
def test_why(image, columns, code, text):
    image = {'hw_architecture': 'x86_64', 'img_hv_type': 'kvm', **image}
    host = factories.hosts(**columns).state(0)
    filter_ = ImagePropertiesFilter()
    assert not filter_.host_passes(host, factories.request(image=image))
    assert filter_.why(host, factories.request(image=image)) == (code, text)

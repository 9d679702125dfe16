# SPDX-License-Identifier: Apache-2.0
"""How like the images of the instances are, as final weights of the hosts."""

import pytest

from novasched import errors
from novasched.scheduler.hosts import Lazy
from novasched.scheduler.pipeline import weigh
from novasched.scheduler.weighers.image_props import ImagePropertiesWeigher
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases

Q35 = {'os_distro': 'windows', 'hw_machine_type': 'q35'}
PC = {'os_distro': 'windows', 'hw_machine_type': 'pc'}
LINUX_Q35 = {'os_distro': 'linux', 'hw_machine_type': 'q35'}
LINUX = {'os_distro': 'linux'}
IMAGES = [[Q35, PC], [LINUX_Q35, LINUX, Q35], []]
FIVE = (factories.aggregate(1, image_props_weight_multiplier='5'),)


def by_uuid(images):
    return {f'u{number}': image for number, image in enumerate(images)}


def hosts_with(images, **columns):
    return factories.hosts(
        instance_images=[by_uuid(each) for each in images], **columns
    )


@cases(
    'multiplier, setting, aggregates, weights',
    ('on', 1.0, [], (), [1, 1, 0]),
    ('off', 0.0, [], (), [0, 0, 0]),
    ('off, an aggregate is on', 0.0, [], FIVE, [0, 0, 0]),
    ('an aggregate counts more', 1.0, [], FIVE, [5, 1, 0]),
    ('apart', -1.0, [], (), [-1, -1, 0]),
    ('two ratios', 1.0, ['os_distro=2', 'hw_machine_type=-1'], (), [1, 0, 0]),
    ('one ratio', 1.0, ['os_distro=2'], (), [1, 0.5, 0]),
    ('the last of a name counts', 1.0, ['os_distro=1', 'os_distro=0'], (), [0, 0, 0]),
    ('no valid ratio', 1.0, ['bad', 'os_distro=x'], (), [1, 1, 0]),
)
def test_weights(multiplier, setting, aggregates, weights):
    hosts = hosts_with(IMAGES, aggregates=[aggregates, (), ()])
    weigher = ImagePropertiesWeigher(multiplier, setting)
    request = factories.request(image=Q35)
    assert weigh([weigher], hosts, request).totals.tolist() == weights


@cases('asked, kept, like',
    ('yes', {'hw_boot_menu': 'true'}, {'hw_boot_menu': 'yes'}, 1),
    ('no', {'hw_boot_menu': 'true'}, {'hw_boot_menu': 'no'}, 0),
    ('an old name', {'hw_architecture': 'amd64'}, {'architecture': 'x86_64'}, 1),
    ('a name nova lacks', {'custom': 'x'}, {'custom': 'x'}, 0),
    ('a list', {'hw_numa_mem.0': '512', 'hw_numa_mem.1': '512'},
     {'hw_numa_mem.0': '512', 'hw_numa_mem.1': '512'}, 1),
    ('another list', {'trait:A': 'required', 'trait:B': 'required'},
     {'trait:A': 'required'}, 0),
    ('nothing asked', {}, {'os_distro': 'x'}, 0),
    ('no image', None, {'os_distro': 'x'}, 0),
)  # fmt: skip
def test_properties_compare_as_texts(asked, kept, like):
    hosts = hosts_with([[kept], []])
    weigher = ImagePropertiesWeigher(1.0)
    request = factories.request(image=asked)
    assert weigher.weigh(hosts, request).tolist() == [like, 0]


def test_a_property_that_does_not_fit_fails_the_weigher():
    hosts = hosts_with([[{'hw_cpu_cores': 'many'}], []])
    request = factories.request(image=Q35)
    with pytest.raises(errors.ExtensionFailed, match='ImagePropertiesWeigher'):
        weigh([ImagePropertiesWeigher(1.0)], hosts, request)


@cases(
    'weigher, image',
    ('off', ImagePropertiesWeigher(0.0), Q35),
    ('no image', ImagePropertiesWeigher(1.0), None),
    ('nothing counts', ImagePropertiesWeigher(1.0, ['os_type=1']), Q35),
)
def test_images_are_not_read_for_nothing(weigher, image):
    def read():
        raise AssertionError('the images were read')

    hosts = factories.hosts(2).with_columns(instance_images=Lazy(read))
    assert weigher.weigh(hosts, factories.request(image=image)).tolist() == [0, 0]


def test_options():
    conf = make_conf()
    conf.set_override('image_props_weight_multiplier', 2.0, 'filter_scheduler')
    conf.set_override('image_props_weight_setting', ['os_distro=3'], 'filter_scheduler')
    weigher = ImagePropertiesWeigher.from_conf(conf)
    hosts = hosts_with(IMAGES)
    assert weigher.weigh(hosts, factories.request(image=Q35)).tolist() == [6, 3, 0]
    assert weigher.multiplier == 2.0

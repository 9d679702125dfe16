# SPDX-License-Identifier: Apache-2.0
"""Texts from outside are bounded before anything is made of them."""

import pytest

from novasched import errors, parsing
from novasched.objects.base import parse
from novasched.objects.image_meta import ImageMetaProps
from novasched.resources.cpu import cpus_in
from novasched.rpc.serializer import decode
from tests.support.clouds import factories
from tests.support.tables.cases import cases

DEEP = '[' * 100_000


@cases(
    'texts',
    ('one range', ['0-99999999999']),
    ('what is left out counts, too', ['^0-99999999999']),
    ('one range twice', ['0-40000,0-40000']),
    ('two nodes of a guest', ['0-40000', '0-40000']),
)
def test_cpus_that_an_image_names(texts):
    image = {f'hw_numa_cpus.{place}': text for place, text in enumerate(texts)}
    with pytest.raises(errors.InvalidRequest, match='more than 65536 CPUs are named'):
        ImageMetaProps.from_dict(image)


def test_as_many_cpus_as_no_guest_has():
    found = ImageMetaProps.from_dict({'hw_numa_cpus.0': '0-65535'})
    assert found.hw_numa_cpus == [set(range(65536))]
    assert len(cpus_in('0-65535', 65536)) == len(cpus_in('^0', 65537 - 1)) + 1


def test_all_cpus_but_some_of_a_guest_that_cannot_be():
    with pytest.raises(errors.InvalidDemand, match='there may be 65536 at most'):
        cpus_in('^0', 2**31)


@pytest.mark.parametrize(
    ('text', 'is_read'),
    [
        ('-9223372036854775808', True),
        ('9223372036854775808', False),
        ('9' * 5000, False),
        ('1.5', False),
    ],
)
def test_whole_numbers(text, is_read):
    if is_read:
        assert parsing.whole_number(text) == int(text)
        return
    with pytest.raises(ValueError, match=r'.'):
        parsing.whole_number(text)


@pytest.mark.parametrize(
    'read', [parsing.parse_json, lambda text: parsing.parse_toml(f'a = {text}')]
)
def test_deeply_nested_text_is_refused(read):
    with pytest.raises(parsing.NestedTooDeep):
        read(DEEP)


def nested(depth):
    made = {}
    for _ in range(depth):
        made = {'a': made}
    return made


@pytest.mark.parametrize(
    'read',
    [
        lambda: ImageMetaProps.from_dict({'img_mappings': DEEP}),
        lambda: decode(nested(5000), None),
        lambda: parse(newer(nested(5000)), accept_newer=True),
    ],
    ids=['a property of an image', 'a message', 'an object'],
)
def test_deeply_nested_request_is_refused(read):
    with pytest.raises(errors.InvalidRequest, match='nested too deep'):
        read()


def newer(value):
    """Return an object with a field that is known to a newer release alone."""
    made = factories.request().obj_to_primitive()
    made['nova_object.data']['later'] = value
    return made

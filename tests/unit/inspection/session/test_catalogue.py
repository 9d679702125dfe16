# SPDX-License-Identifier: Apache-2.0
"""Flavors and images by name, from files, and said in full."""

import json

import pytest

from novasched import errors
from novasched.inspection.session import catalogue
from tests.support.tables.cases import cases

FILE = """
[[flavors]]
name = "own.big"
vcpus = 8
ram = 16384
disk = 100
swap = 512
extra_specs = {"hw:cpu_policy" = "dedicated", "hw:numa_nodes" = 2}

[[flavors]]
name = "m1.tiny"
vcpus = 2
ram = 64
disk = 0

[[images]]
name = "windows"
min_ram = 4096
properties = {os_type = "windows"}
"""


@pytest.fixture
def path(tmp_path):
    made = tmp_path / 'catalogue.toml'
    made.write_text(FILE)
    return str(made)


def in_file(name, path):
    return catalogue.flavor_of(catalogue.from_file(name, path, 'flavors'))


def size(flavor):
    return flavor.vcpus, flavor.memory_mb, flavor.root_gb


@cases(
    'text, expected, extra',
    ('built in', 'm1.tiny', (1, 512, 1), {}),
    ('built in, large', 'm1.large', (4, 8192, 80), {}),
    ('in full', 'vcpus=2,ram=2048,disk=0', (2, 2048, 0), {}),
    (
        'in full, with extra specs that have commas',
        'vcpus=2,ram=64,disk=1,hw:numa_cpus.0=0,1,hw:mem_page_size=large',
        (2, 64, 1),
        {'hw:numa_cpus.0': '0,1', 'hw:mem_page_size': 'large'},
    ),
)
def test_a_flavor(text, expected, extra):
    found = catalogue.flavor_of(text)
    assert size(found) == expected
    assert found.extra_specs == extra


def test_a_flavor_of_a_file_comes_first(path):
    assert size(in_file('m1.tiny', path)) == (2, 64, 0)
    found = in_file('own.big', path)
    assert found.swap == 512
    assert found.extra_specs == {'hw:cpu_policy': 'dedicated', 'hw:numa_nodes': '2'}
    assert found.name == 'own.big'


def test_a_flavor_of_the_database_comes_before_one_built_in():
    known = catalogue.flavor_of('vcpus=3,ram=3,disk=3')
    in_database = {'m1.tiny': known, 'gold=1': known}.get
    assert size(catalogue.flavor_of('m1.tiny', in_database)) == (3, 3, 3)
    assert size(catalogue.flavor_of('gold=1', in_database)) == (3, 3, 3)
    assert size(catalogue.flavor_of('m1.small', in_database)) == (1, 2048, 20)


@pytest.mark.parametrize(
    ('text', 'problem'),
    [
        pytest.param('nothing', 'Name one of m1.tiny', id='unknown'),
        pytest.param('vcpus=2', 'does not say ram, disk', id='without its size'),
        pytest.param('vcpus=0,ram=1,disk=1', 'vcpus of inline is 0', id='no CPUs'),
        pytest.param('vcpus=1,ram=x,disk=1', 'ram of inline is x', id='no number'),
        pytest.param('=1,ram=x,disk=1', 'Write key=value', id='no name'),
        *(
            pytest.param(text, 'Write a whole number', id=text)
            for text in (
                'vcpus=3000000,ram=2,disk=1,hw:cpu_policy=dedicated',
                f'vcpus=1,ram={"9" * 30},disk=1',
                'vcpus=1,ram=2048,disk=9999999999',
                'vcpus=\u00b2,ram=2048,disk=1',
            )
        ),
    ],
)
def test_invalid_flavor_is_refused(text, problem):
    with pytest.raises(errors.OptionError, match=problem):
        catalogue.flavor_of(text)


def test_an_image_is_the_same_every_time(path):
    assert catalogue.image_of('cirros') == catalogue.image_of(
        catalogue.from_file('cirros', path, 'images')
    )
    found = catalogue.image_of(catalogue.from_file('windows', path, 'images'))
    assert found['properties'] == {'os_type': 'windows'}
    assert found['name'] == 'windows'
    with pytest.raises(errors.OptionError, match='Name one of cirros, or'):
        catalogue.image_of('windows')


def test_an_image_must_fit_into_the_flavor(path):
    medium, small = map(catalogue.flavor_of, ('m1.medium', 'm1.small'))
    windows = catalogue.from_file('windows', path, 'images')
    assert catalogue.image_for(medium, windows)['name'] == 'windows'
    with pytest.raises(errors.OptionError, match='needs 4096 MiB of memory'):
        catalogue.image_for(small, windows)


@cases(
    'text',
    ('no name', '{"vcpus": 1, "ram": 1, "disk": 1}'),
    ('a name of another kind', '{"name": [1], "vcpus": 1, "ram": 1, "disk": 1}'),
    ('no size', '{"name": "x"}'),
    ('a size of another kind', '{"name": "x", "vcpus": [1], "ram": {}, "disk": 1}'),
    ('specs of another kind', '{"name": "x", "vcpus": 1, "extra_specs": 7}'),
    ('no object', '[1]'),
    ('too deep', '[' * 100_000),
    ('half of a character', r'{"name": "\ud800", "vcpus": 1, "ram": 1, "disk": 1}'),
)
def test_odd_json_of_a_client_is_refused(text):
    with pytest.raises(errors.OptionError):
        catalogue.flavor_of(text)


def test_id_that_is_no_number_of_a_database_is_a_text():
    said = {'name': 'x', 'vcpus': 1, 'ram': 1, 'disk': 1, 'id': 10**30}
    made = catalogue.flavor_of(json.dumps(said))
    assert (made.id, made.flavorid) == (0, str(10**30))


@cases(
    'text',
    ('a size', '{"name": "x", "min_ram": "z"}'),
    ('no number', '{"name": "x", "min_disk": null}'),
    ('properties', '{"name": "x", "properties": []}'),
    ('half of a character', r'{"name": "\ud800"}'),
)
def test_odd_json_of_an_image_is_refused(text):
    with pytest.raises(errors.OptionError, match='image'):
        catalogue.image_of(text)


@cases(
    'text, problem',
    ('missing', None, 'No such file'),
    ('of another shape', 'flavors = 1', 'as tables'),
    ('without a name', '[[flavors]]\nvcpus = 1', 'has no name'),
    ('no TOML', 'nonsense', 'as tables'),
)
def test_invalid_catalogue_file_is_refused(tmp_path, text, problem):
    path = tmp_path / 'wrong.toml'
    if text is not None:
        path.write_text(text)
    with pytest.raises(errors.OptionError, match=problem):
        in_file('own.big', str(path))


def test_pairs_keep_all_values_of_a_key():
    found = catalogue.pairs(['a=1', 'b=x=y', 'a=2'], '--hint')
    assert found == {'a': ['1', '2'], 'b': ['x=y']}
    with pytest.raises(errors.OptionError, match='--hint: a is no pair'):
        catalogue.pairs(['a'], '--hint')

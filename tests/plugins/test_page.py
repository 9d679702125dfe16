# SPDX-License-Identifier: Apache-2.0
"""The page for plugin authors is true: its code runs, and it names what there is."""

import importlib
import re
import sys
import tomllib
import typing

import pytest

from novasched import plugins, testing
from novasched.scheduler import columns
from novasched.scheduler.hosts import Column, Columns
from tests.differential import surface_exceptions

ARRAYS = ('Ints', 'Floats', 'Mask', 'Objects')


@pytest.fixture
def page(root):
    return root / 'docs' / 'plugins.md'


@pytest.fixture
def text(page):
    return page.read_text()


@pytest.fixture
def blocks(text):
    """The code on the page: by the name of the file, and of its language."""
    found = {}
    for language, code in re.findall(r'^```(\w+)\n(.*?)^```$', text, re.M | re.S):
        named = re.match(r'# (\w+)\.py', code)
        name = named[1] if named else language
        found[name] = found.get(name, '') + code
    return found


@pytest.fixture
def site(blocks, tmp_path, monkeypatch):
    """The module of the page and its tests, as if they were installed."""
    for name in ('site_plugins', 'test_site_plugins'):
        (tmp_path / f'{name}.py').write_text(blocks[name])
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module('site_plugins')
    for name in ('site_plugins', 'test_site_plugins'):
        sys.modules.pop(name, None)


def test_the_tests_on_the_page_pass(site):
    checks = vars(importlib.import_module('test_site_plugins'))
    ran = [check() for name, check in checks.items() if name.startswith('test_')]
    assert len(ran) == 5


def test_the_weigher_sees_what_the_filter_set(site):
    hosts = site.RackFilter().apply(testing.hosts(2), testing.request())
    assert testing.weigh(site.RackWeigher(), hosts, testing.request()).raw == {
        'h1': 1.0,
        'h2': 1.0,
    }


def test_the_entry_points_are_where_plugins_are_looked_for(blocks, site):
    points = tomllib.loads(blocks['toml'])['project']['entry-points']
    assert list(points) == [plugins.FILTERS.namespace, plugins.WEIGHERS.namespace]
    for listed in points.values():
        for name, target in listed.items():
            module, _, attribute = target.partition(':')
            assert (module, attribute) == (site.__name__, name)
            assert callable(getattr(site, attribute))


def test_every_column_is_listed_with_its_types(text):
    rows = [_row(name, c) for name, c in vars(Columns).items() if isinstance(c, Column)]
    assert '\n'.join(rows) in text


def _row(name, column):
    on_table, on_host = typing.get_args(column.__orig_class__)
    kind = next((n for n in ARRAYS if getattr(columns, n) == on_table), 'Categories')
    return f'| `{name}` | {kind} | {_type(on_host)} | {column.__doc__} |'


def _type(kind):
    shown = kind.__name__ if isinstance(kind, type) else str(kind)
    shown = re.sub(r'(\w+\.)+(?=\w)', '', shown)
    return shown.replace('|', 'or')


def test_every_field_of_a_request_is_there(text):
    section = text.split('## Requests')[1].split('## Packaging')[0]
    first = re.findall(r'^\| (`.*?) \|', section, re.M)
    names = [n for cell in first for n in re.findall(r'`(\w+)', cell)]
    assert len(names) > 20
    made = testing.request(image={})
    assert [name for name in names if not hasattr(made, name)] == []


def test_every_exception_from_novas_surface_is_listed(text):
    missing = [row for row in surface_exceptions.page_rows() if row not in text]
    assert missing == []


def test_public_names_of_the_page_exist(text):
    for module, names in re.findall(
        r'^from (novasched\.[\w.]+) import \(?([\w,\s]+?)\)?$', text, re.M
    ):
        for name in re.findall(r'\w+', names):
            assert hasattr(importlib.import_module(module), name), (module, name)

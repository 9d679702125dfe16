# SPDX-License-Identifier: Apache-2.0
"""What every page has, and what none may have."""

import pathlib
import re

import pytest

from novasched import console
from tests.support.records.console_answers import SCHEDULED, UNSCHEDULABLE, page

DIRECTORY = pathlib.Path(console.__file__).parent
TEMPLATES = sorted((DIRECTORY / 'templates').glob('*.html'))
MOST_LINES_OF_SCRIPT = 60
PATHS = (
    *('/', '/decisions', '/decisions/count', f'/decisions/{SCHEDULED}', '/plan'),
    '/shadow',
    *(f'/decisions/{UNSCHEDULABLE}', '/capacity', '/hosts', '/health', '/search?q='),
)
HOSTILE = '"onload="x \'><script>alert(1)</script>{{7*7}}\u202e'


@pytest.mark.parametrize('path', TEMPLATES, ids=lambda path: path.name)
def test_nothing_is_trusted_or_inline(path):
    text = path.read_text()
    assert not re.search(
        r'\|\s*safe|Markup|autoescape|\bon[a-z]+="|style=|<style', text
    )
    assert not re.search(r'<script(?![^>]*\bsrc=)', text)
    assert not re.search(r'(src|href|action)="(https?:)?//', text)


def test_the_script_is_short_and_loads_nothing_from_elsewhere():
    text = (DIRECTORY / 'static/console.js').read_text()
    assert len(text.splitlines()) <= MOST_LINES_OF_SCRIPT
    assert '//' not in re.sub(r'^//.*', '', text, flags=re.MULTILINE)
    assert not re.search(r'\beval\b|document\.write|Function\(', text)


@pytest.mark.parametrize('path', PATHS[:-1])
def test_landmarks_headings_and_labels(path):
    seen = page(path)
    for name in ('header', 'nav', 'main', 'footer', 'h1'):
        assert len(seen.all(name)) == 1, name
    assert seen.all('main')[0][0]['id'] == 'main'
    assert seen.all('a', class_='skip')[0][0]['href'] == '#main'
    ids = [found['id'] for _, found in seen.elements if 'id' in found]
    assert len(ids) == len(set(ids))
    keys = {found['data-key'] for _, found in seen.elements if 'data-key' in found}
    assert keys == set('/gdpch')
    for name, found in seen.elements:
        if name == 'svg' and 'aria-hidden' not in found:
            assert found['role'] in ('img', 'group')
            assert len(found['aria-label'].split()) >= 3
        if name == 'div' and found.get('class', '').startswith('scroll'):
            assert (found['tabindex'], found['role']) == ('0', 'region')
            assert found['aria-label']


@pytest.mark.parametrize('path', PATHS[:-1])
def test_a_chart_that_says_something_has_a_table(path):
    seen = page(path)
    charts = [f for f, _ in seen.all('svg') if 'aria-hidden' not in f]
    tables = [f for f, _ in seen.all('details', class_='data')]
    assert bool(tables) >= bool(charts)


@pytest.mark.parametrize('name', ['flavor', 'plugin', 'host'])
def test_typed_markup_stays_text(name):
    seen = page(f'/decisions?{name}=%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E')
    scripts = [found for found, _ in seen.all('script')]
    assert [each['src'] for each in scripts] == ['/static/console.js']


def test_names_made_of_markup_stay_text():
    row = {'value': HOSTILE, 'count': 3, 'share': 1.0, 'most_often': HOSTILE}
    seen = page('/decisions/count?by=flavor', count={'rows': [row], 'unanswered': []})
    assert len(seen.all('script')) == 1
    assert HOSTILE in seen.text('table')
    assert not [f for _, f in seen.elements if 'onload' in f]

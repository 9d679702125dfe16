# SPDX-License-Identifier: Apache-2.0
"""URL templates of cell mappings."""

from __future__ import annotations

import pytest

from novasched.db import cells

MAIN = 'mysql+pymysql://u:p%40ss@db1:3306/nova_cell0?charset=utf8'
PAIR = 'rabbit://u1:p1@h1:5671,u2@h2:5672/vhost'
WHOLE = '{scheme}://{username}:{password}@{hostname}:{port}/{path}'


@pytest.mark.parametrize(
    ('template', 'configured', 'filled'),
    [
        pytest.param(
            '{scheme}://{username}:{password}@{hostname}:{port}/nova_cell1?{query}',
            MAIN,
            'mysql+pymysql://u:p%40ss@db1:3306/nova_cell1?charset=utf8',
            id='percent-encoding is kept as written',
        ),
        pytest.param('{path}', MAIN, 'nova_cell0', id='the path has no leading slash'),
        pytest.param(
            WHOLE,
            'mysql://u:p@db1/x',
            'mysql://u:p@db1:None/x',
            id='a missing port is the text None',
        ),
        pytest.param(
            WHOLE,
            'mysql://db1:1/x',
            'mysql://None:None@db1:1/x',
            id='a missing user is the text None',
        ),
        pytest.param(
            '{hostname} [{hostname}]:{port}',
            'mysql://u:p@[::1]:3306/x',
            '::1 [::1]:3306',
            id='an IPv6 host loses its brackets',
        ),
        pytest.param(
            '{path}',
            'sqlite:////abs/x.db',
            'abs/x.db',
            id='an absolute SQLite path loses all its slashes',
        ),
        pytest.param(
            '?{query}#{fragment}', 'a://b/c', '?#', id='no query and no fragment'
        ),
        pytest.param(
            '?{query}#{fragment}', 'a://b/c?d=1#e', '?d=1#e', id='query and fragment'
        ),
        pytest.param(
            WHOLE,
            'rabbit://u1:p1@h1:5671,u2:p2@h2:5672/vhost',
            'rabbit://u1:p1@h1:5671,u2:p2@h2:5672/vhost',
            id='the unnumbered parts of a list reproduce it',
        ),
        pytest.param(
            '{username1}:{password1}@{hostname1}:{port1}'
            ',{username2}:{password2}@{hostname2}:{port2}',
            PAIR,
            'u1:p1@h1:5671,u2:None@h2:5672',
            id='the members of a list are numbered',
        ),
        pytest.param('{{x}}', MAIN, '{x}', id='a doubled brace is one brace'),
        pytest.param('plain', MAIN, 'plain', id='a plain URL stays as it is'),
        pytest.param(None, MAIN, None, id='a null column stays null'),
        pytest.param('{scheme}', None, '{scheme}', id='nothing configured'),
        pytest.param('{{x}}', None, '{{x}}', id='doubled braces, nothing configured'),
        pytest.param('{host}', MAIN, '{host}', id='an unknown placeholder'),
        pytest.param(
            '{hostname1}', MAIN, '{hostname1}', id='a numbered part, but no list'
        ),
        pytest.param('{scheme', MAIN, '{scheme', id='an open brace'),
        pytest.param('{}', MAIN, '{}', id='an empty placeholder'),
        pytest.param('{scheme.x}', MAIN, '{scheme.x}', id='an attribute'),
        pytest.param('{port}', 'a://b:c/d', '{port}', id='a port that is no number'),
    ],
)
def test_fill(template, configured, filled):
    assert cells.fill(template, configured) == filled


@pytest.mark.parametrize(
    ('template', 'configured', 'says'),
    [
        pytest.param(
            'a://u:secret@{host}/',
            MAIN,
            "KeyError: 'host'",
            id='an unknown placeholder',
        ),
        pytest.param(
            'a://u:secret@{hostname}/',
            None,
            'the URL that it refers to is not configured',
            id='nothing is configured',
        ),
    ],
)
def test_a_template_that_cannot_be_filled_is_logged(template, configured, says, caplog):
    cells.fill(template, configured)
    assert says in caplog.text
    assert 'secret' not in caplog.text

# SPDX-License-Identifier: Apache-2.0
"""URL templates of cell mappings."""

from novasched.db import cells
from tests.support.tables.cases import cases

MAIN = 'mysql+pymysql://u:p%40ss@db1:3306/nova_cell0?charset=utf8'
PAIR = 'rabbit://u1:p1@h1:5671,u2@h2:5672/vhost'
WHOLE = '{scheme}://{username}:{password}@{hostname}:{port}/{path}'


@cases(
    ('template', 'configured', 'filled'),
    (
        'percent-encoding is kept as written',
        '{scheme}://{username}:{password}@{hostname}:{port}/nova_cell1?{query}',
        MAIN,
        'mysql+pymysql://u:p%40ss@db1:3306/nova_cell1?charset=utf8',
    ),
    ('the path has no leading slash', '{path}', MAIN, 'nova_cell0'),
    (
        'a missing port is the text None',
        WHOLE,
        'mysql://u:p@db1/x',
        'mysql://u:p@db1:None/x',
    ),
    (
        'a missing user is the text None',
        WHOLE,
        'mysql://db1:1/x',
        'mysql://None:None@db1:1/x',
    ),
    (
        'an IPv6 host loses its brackets',
        '{hostname} [{hostname}]:{port}',
        'mysql://u:p@[::1]:3306/x',
        '::1 [::1]:3306',
    ),
    (
        'an absolute SQLite path loses all its slashes',
        '{path}',
        'sqlite:////abs/x.db',
        'abs/x.db',
    ),
    ('no query and no fragment', '?{query}#{fragment}', 'a://b/c', '?#'),
    ('query and fragment', '?{query}#{fragment}', 'a://b/c?d=1#e', '?d=1#e'),
    (
        'the unnumbered parts of a list reproduce it',
        WHOLE,
        'rabbit://u1:p1@h1:5671,u2:p2@h2:5672/vhost',
        'rabbit://u1:p1@h1:5671,u2:p2@h2:5672/vhost',
    ),
    (
        'the members of a list are numbered',
        '{username1}:{password1}@{hostname1}:{port1}'
        ',{username2}:{password2}@{hostname2}:{port2}',
        PAIR,
        'u1:p1@h1:5671,u2:None@h2:5672',
    ),
    ('a doubled brace is one brace', '{{x}}', MAIN, '{x}'),
    ('a plain URL stays as it is', 'plain', MAIN, 'plain'),
    ('a null column stays null', None, MAIN, None),
    ('nothing configured', '{scheme}', None, '{scheme}'),
    ('doubled braces, nothing configured', '{{x}}', None, '{{x}}'),
    ('an unknown placeholder', '{host}', MAIN, '{host}'),
    ('a numbered part, but no list', '{hostname1}', MAIN, '{hostname1}'),
    ('an open brace', '{scheme', MAIN, '{scheme'),
    ('an empty placeholder', '{}', MAIN, '{}'),
    ('an attribute', '{scheme.x}', MAIN, '{scheme.x}'),
    ('a port that is no number', '{port}', 'a://b:c/d', '{port}'),
)
def test_fill(template, configured, filled):
    assert cells.fill(template, configured) == filled


@cases(
    ('template', 'configured', 'says'),
    ('an unknown placeholder', 'a://u:secret@{host}/', MAIN, "KeyError: 'host'"),
    (
        'nothing is configured',
        'a://u:secret@{hostname}/',
        None,
        'the URL that it refers to is not configured',
    ),
)
def test_a_template_that_cannot_be_filled_is_logged(template, configured, says, caplog):
    cells.fill(template, configured)
    assert says in caplog.text
    assert 'secret' not in caplog.text

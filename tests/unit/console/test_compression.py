# SPDX-License-Identifier: Apache-2.0
"""Answers are compressed for clients that take it."""

import gzip

import flask
import pytest

from novasched.console.compression import LEAST_BYTES, compressed
from tests.support.tables.cases import cases

LONG = 'a host and another, ' * LEAST_BYTES
GZIP = {'Accept-Encoding': 'gzip, br'}


@pytest.fixture
def client():
    app = flask.Flask(__name__)
    app.after_request(compressed)
    app.add_url_rule('/long', 'long', lambda: LONG)
    app.add_url_rule('/short', 'short', lambda: 'a host')
    app.add_url_rule('/json', 'json', lambda: {'text': LONG})
    app.add_url_rule('/gone', 'gone', lambda: (LONG, 404))
    picture = {'Content-Type': 'image/png'}
    app.add_url_rule('/picture', 'picture', lambda: (LONG, picture))
    return app.test_client()


@pytest.mark.parametrize('path', ['/long', '/json'])
def test_texts_are_compressed(client, path):
    plain, small = client.get(path), client.get(path, headers=GZIP)
    assert small.headers['Content-Encoding'] == 'gzip'
    assert gzip.decompress(small.data) == plain.data
    assert small.content_length == len(small.data) < len(plain.data) / 10
    for answer in (plain, small):
        assert 'Accept-Encoding' in answer.vary


@cases(
    'path, accepted',
    ('client takes another', '/long', 'br'),
    ('client takes anything else', '/long', 'gzip;q=0'),
    ('of no use', '/short', 'gzip'),
    ('compressed already', '/picture', 'gzip'),
    ('an error', '/gone', 'gzip'),
)
def test_others_are_as_they_are(client, path, accepted):
    answer = client.get(path, headers={'Accept-Encoding': accepted})
    assert 'Content-Encoding' not in answer.headers
    assert answer.data == client.get(path).data


def test_head_has_the_length_of_get(client):
    head = client.head('/long', headers=GZIP)
    assert head.data == b''
    assert head.content_length == client.get('/long', headers=GZIP).content_length

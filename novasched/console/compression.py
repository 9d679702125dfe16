# SPDX-License-Identifier: Apache-2.0
"""Compression of answers, for clients that take gzip.

No answer has both a secret and what a client sent, so its length tells nothing.
"""

from __future__ import annotations

import gzip

import flask

LEVEL = 5
LEAST_BYTES = 1024
TYPES = frozenset(
    {
        'application/json',
        'image/svg+xml',
        'text/css',
        'text/html',
        'text/javascript',
        'text/plain',
    }
)


def compressed(answer: flask.Response) -> flask.Response:
    """Compress an answer to the present request, if that is of use."""
    if answer.mimetype not in TYPES or 'Content-Encoding' in answer.headers:
        return answer
    answer.vary.add('Accept-Encoding')
    accepted = flask.request.accept_encodings
    if not accepted['gzip'] or answer.status_code != 200:
        return answer
    answer.direct_passthrough = False  # files of static/
    content = answer.get_data()
    if len(content) >= LEAST_BYTES:
        answer.set_data(gzip.compress(content, LEVEL, mtime=0))
        answer.headers['Content-Encoding'] = 'gzip'
        if 'ETag' in answer.headers:
            del answer.headers['ETag']  # that of what is not compressed
    return answer

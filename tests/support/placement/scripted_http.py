# SPDX-License-Identifier: Apache-2.0
"""A service that gives prepared answers, in the place of the network."""

import io
import json

import requests
import urllib3


class Script(requests.adapters.BaseAdapter):
    """Answers with (status, body) or these and headers, or raises; keeps what it was
    asked.

    ``asked`` is what was asked below ``url``, as ``METHOD /path``.
    """

    def __init__(self, url, answers):
        super().__init__()
        self.answers = list(answers)
        self.requests = []
        self.options = []
        self._url = url

    def session(self):
        """Return a session that it answers."""
        made = requests.Session()
        made.trust_env = False
        made.mount('http://', self)
        return made

    def send(self, request, **options):
        self.requests.append(request)
        self.options.append(options)
        answer = self.answer(request)
        if isinstance(answer, Exception):
            raise answer
        return self._response(request, *answer)

    def answer(self, request):
        """The next one; a test may put another function in its place."""
        return self.answers.pop(0)

    def close(self):
        pass

    @property
    def asked(self):
        return [f'{r.method} {r.url.removeprefix(self._url)}' for r in self.requests]

    @property
    def headers(self):
        return [request.headers for request in self.requests]

    def body(self, number):
        return json.loads(self.requests[number].body)

    def _response(self, request, status, body, headers=None):
        text = body if isinstance(body, str) else json.dumps(body)
        raw = urllib3.HTTPResponse(
            io.BytesIO(text.encode()), headers, status, preload_content=False
        )
        return requests.adapters.HTTPAdapter().build_response(request, raw)

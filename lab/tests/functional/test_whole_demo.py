# SPDX-License-Identifier: Apache-2.0
"""Parts of ``novasched demo --hosts`` that need no broker."""

import threading

import pytest

from novasched import errors
from novasched_lab.local.placement import adapter_to, serving


def test_placement_is_served_over_http_and_stops(tmp_path):
    before = set(threading.enumerate())
    with serving(None, tmp_path) as url:
        with adapter_to(url) as adapter:
            answer = adapter.get('/resource_providers', microversion='1.36')
        assert answer.json() == {'resource_providers': []}
        with serving(url, tmp_path) as again:
            assert again == url
    for each in set(threading.enumerate()) - before:
        each.join(20)  # it ends by itself
        assert not each.is_alive()
    with (
        pytest.raises(errors.OptionError, match='Check that placement runs there'),
        serving(url, tmp_path),
    ):
        pass

# SPDX-License-Identifier: Apache-2.0
"""A bar for people."""

from __future__ import annotations

import pytest

from lab.tests.unit.commands.commands import Output
from novasched_lab.commands.progress import bar


@pytest.mark.parametrize('is_terminal', [True, False])
def test_a_bar_is_shown_on_terminals_only(is_terminal):
    stream = Output(is_terminal)
    with bar(stream, 'building', 7) as show:
        show(3)
    assert ('building' in stream.getvalue()) == is_terminal

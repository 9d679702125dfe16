# SPDX-License-Identifier: Apache-2.0
"""Who of a line of classes wrote a hook."""

from __future__ import annotations

import pytest

from novasched.scheduler import hooks


class Base:
    def hook(self):
        """The default."""

    def rule(self):
        """The default."""


class Ruled(Base):
    def rule(self):
        """A rule of its own."""


class Hooked(Ruled):
    def hook(self, host):
        """A hook of its own."""


class RuledAgain(Hooked):
    def rule(self):
        """A rule of its own."""


@pytest.mark.parametrize(
    ('cls', 'expected'),
    [(Base, False), (Ruled, False), (Hooked, True), (RuledAgain, False)],
)
def test_nearer(cls, expected):
    assert hooks.nearer(cls, 'hook', 'rule') is expected


@pytest.mark.parametrize(('cls', 'expected'), [(Base, False), (Hooked, True)])
def test_takes_host(cls, expected):
    assert hooks.takes_host(cls, 'hook') is expected

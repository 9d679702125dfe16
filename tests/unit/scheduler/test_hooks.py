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


Base.__module__ = 'novasched.scheduler.bases'


class Ruled(Base):
    def rule(self):
        """A rule of its own."""


class Hooked(Ruled):
    def hook(self, host):
        """A hook of its own."""


class RuledAgain(Hooked):
    def rule(self):
        """A rule of its own."""


class Both(Ruled):
    def hook(self):
        """A hook of its own."""

    def rule(self, number):
        """No rule, for all that its name says."""


@pytest.mark.parametrize(
    ('cls', 'expected'),
    [
        pytest.param(Base, False, id='the defaults'),
        pytest.param(Ruled, False, id='a rule'),
        pytest.param(Hooked, True, id='a hook'),
        pytest.param(RuledAgain, False, id='a rule after the hook'),
        pytest.param(Both, True, id='a plugin that has both'),
    ],
)
def test_nearer(cls, expected):
    assert hooks.nearer(cls, 'hook', 'rule') is expected
    assert hooks.overridden(cls(), 'hook', 'rule') is expected


def test_an_object_may_have_a_hook_that_its_class_lacks():
    plugin = Ruled()
    plugin.hook = lambda host: 5.0
    assert hooks.overridden(plugin, 'hook', 'rule')


@pytest.mark.parametrize(
    ('hook', 'expected'),
    [
        pytest.param(Base().hook, False, id='as before Stein'),
        pytest.param(Hooked().hook, True, id='a method'),
        pytest.param(lambda host_state: 5.0, True, id='a function of the object'),
        pytest.param(lambda *args: 5.0, True, id='whatever comes'),
        pytest.param(staticmethod(Hooked.hook).__func__, False, id='two are missing'),
    ],
)
def test_takes_host(hook, expected):
    assert hooks.takes_host(hook) is expected


class OfOurs(Base):
    notices = 'ours'


OfOurs.__module__ = Base.__module__


class KnowsUs(OfOurs):
    notices = 'of a site'


class Helping:
    notices = 'a helper'


class MadeForNova(Helping, OfOurs):
    def host_passes(self, host_state, spec_obj):
        """A hook of nova's."""


class Weighs(KnowsUs):
    def _weigh_object(self, host_state, weight_properties):
        """Another."""


@pytest.mark.parametrize(
    ('cls', 'expected'),
    [
        pytest.param(OfOurs, 'ours', id='ours'),
        pytest.param(KnowsUs, 'of a site', id='a plugin that knows us'),
        pytest.param(MadeForNova, 'ours', id='a filter made for nova'),
        pytest.param(Weighs, 'ours', id='a weigher made for nova'),
        pytest.param(Base, None, id='nothing'),
    ],
)
def test_what_is_meant_by_a_name_of_ours(cls, expected):
    assert hooks.meant(cls, 'notices') == expected

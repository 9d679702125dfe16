# SPDX-License-Identifier: Apache-2.0
"""Conditions are logged once, until they change or end."""

from novasched.runtime.log_once import LogOnce


def test_a_condition_is_new_until_it_changes_or_ends():
    once = LogOnce()
    assert once.begins()
    assert not once.begins()
    assert once.begins(value='another')
    assert once.ends()
    assert not once.ends()
    assert once.begins()


def test_conditions_have_keys():
    once = LogOnce()
    assert once.begins('a')
    assert once.begins('b')
    assert not once.begins('a')
    assert once.ends('b')
    assert ('a' in once, 'b' in once) == (True, False)


def test_those_that_are_not_listed_have_ended():
    once = LogOnce()
    assert once.new(['b', 'a']) == ['a', 'b']
    assert once.new(['b', 'c']) == ['c']
    assert once.new(['a']) == ['a']

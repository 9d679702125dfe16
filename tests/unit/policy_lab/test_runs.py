# SPDX-License-Identifier: Apache-2.0
"""Runs of policies over parts, whole and broken off."""

import dataclasses

import pytest

from novasched import errors
from novasched.policy_lab import runs
from novasched.policy_lab.policy import parse
from novasched.policy_lab.results import FleetGroup, RunResult
from tests.support.clouds.traces import HOUR, written

POLICIES = [parse('now=default'), parse('pack=cpu:-1,ram:-1')]
TIGHT = [FleetGroup(3, 8, 32768)]


class BrokenOff(Exception):
    """The run is broken off."""


def run(history, directory, report=runs.silent, processes=1, **more):
    more = {'fill_s': 3 * HOUR, 'needs': True, 'hosts': TIGHT, **more}
    order = runs.RunOrder(
        history, directory, processes=processes, report=report, **more
    )
    return runs.run(order, POLICIES)


def timeless(result):
    """Return a run without the times that it took."""
    of_parts = [dataclasses.replace(each, took_s=0.0) for each in result.parts]
    needed = [dataclasses.replace(each, took_s=0.0) for each in result.needed]
    return dataclasses.replace(result, parts=of_parts, needed=needed)


@pytest.fixture(scope='module')
def history(tmp_path_factory):
    return written(tmp_path_factory.mktemp('history'), count=30)


@pytest.fixture(scope='module')
def whole(history, tmp_path_factory):
    return run(history, tmp_path_factory.mktemp('whole'), processes=2)


def test_run_in_processes_has_all_results(whole):
    assert [(each.policy, each.part) for each in whole.parts] == [
        ('now', 1),
        ('now', 2),
        ('pack', 1),
        ('pack', 2),
    ]
    assert len(whole.needed) == 4
    assert RunResult.of_text(whole.as_text()) == whole
    refused = next(row for row in whole.rows if row.name == 'refused_vms')
    assert refused.means['now'] > 0
    assert refused.differences['pack'].within is not None


def test_resumed_run_equals_unbroken(whole, history, tmp_path):
    done = []

    def break_off(progress):
        done.append(progress)
        if progress.done == 3:
            raise BrokenOff

    with pytest.raises(BrokenOff):
        run(history, tmp_path, break_off)
    torn = next(tmp_path.glob('measure-*.json'), None) or next(tmp_path.glob('need-*'))
    torn.write_text(torn.read_text()[:50])
    seen = []
    resumed = run(history, tmp_path, seen.append)
    assert sum(progress.was_there for progress in seen) == 2
    assert timeless(resumed) == timeless(whole)
    assert runs.read(tmp_path) == resumed


def test_finished_run_is_not_run_again_but_for_what_changed(history, tmp_path):
    few = {'parts': 1, 'needs': False}
    run(history, tmp_path, **few)
    seen = []
    run(history, tmp_path, seen.append, **few)
    assert [progress.was_there for progress in seen] == [True, True]
    seen.clear()
    run(history, tmp_path, seen.append, **few, fill_s=None)
    assert [progress.was_there for progress in seen] == [False, False]


def test_run_of_a_part_without_requests_refuses_nothing(tmp_path):
    empty = written(tmp_path / 'history', parts=(3,), count=0)
    found = run(empty, tmp_path / 'run')
    assert [each.figures['refused_vms'] for each in found.parts] == [0, 0]
    assert [each.hosts for each in found.needed] == [1, 1]


def test_directory_that_cannot_be_made_is_named(history, tmp_path):
    (tmp_path / 'file').touch()
    with pytest.raises(errors.OptionError, match='directory that can be written'):
        run(history, tmp_path / 'file' / 'run')


def test_parts_that_are_not_there_are_refused(history, tmp_path):
    with pytest.raises(errors.OptionError, match='there are 2'):
        run(history, tmp_path, parts=3)


def test_directory_without_a_run_is_refused(tmp_path):
    with pytest.raises(errors.OptionError):
        runs.read(tmp_path)

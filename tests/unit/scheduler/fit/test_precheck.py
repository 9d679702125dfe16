# SPDX-License-Identifier: Apache-2.0
"""Precheck of all hosts at once."""

import random

import numpy as np
import pytest

from novasched.scheduler.columns import Categories
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.parse import HostTopology
from novasched.scheduler.fit.precheck import Precheck
from novasched.scheduler.fit.requirements import guest_of
from novasched.scheduler.fit.topology import ANY, LARGE, SMALL
from tests.support.clouds.factories import (
    guest_cell,
    guest_topology,
    numa_cell,
    numa_topology,
)
from tests.support.tables.cases import cases

HUGE = 1048576


def enough(guest, *topologies, by=None):
    column = Categories(list(topologies), np.arange(len(topologies)))
    return Precheck().may_fit(column, guest_of(guest, by)).tolist()


def topology(*cells):
    return HostTopology(numa_topology(*cells))


def dedicated(*counts, **fields):
    cells = [guest_cell(cpus=range(n), policy='dedicated', **fields) for n in counts]
    return guest_topology(*cells)


@cases(
    'guest, expected',
    ('as many CPUs as are free', dedicated(4), True),
    ('one CPU too many', dedicated(5), False),
    ('the large one has the large node', dedicated(2, 4), True),
    ('two large ones', dedicated(3, 3), False),
    ('too few nodes', dedicated(1, 1, 1), False),
    ('shared', guest_topology(guest_cell(cpus=range(6))), True),
    ('too many', guest_topology(guest_cell(cpus=range(7))), False),
    ('memory', guest_topology(guest_cell(memory=4096)), True),
    ('too much', guest_topology(guest_cell(memory=4097)), False),
    ('beyond a column', guest_topology(guest_cell(memory=2**61)), False),
)
def test_nodes_are_compared_by_rank(guest, expected):
    host = topology(numa_cell(0, range(6), pinned=[4, 5]), numa_cell(1, range(6, 8)))
    assert enough(guest, host, None) == [expected, False]


def test_the_emulator_needs_a_cpu():
    cell = guest_cell(cpus=range(4), policy='dedicated')
    host = topology(numa_cell(0, range(4)))
    assert enough(guest_topology(cell), host) == [True]
    assert enough(guest_topology(cell, emulator='isolate'), host) == [False]


@cases(
    'pages, asked, policy, expected',
    ('a size', {4: 262144, HUGE: 1}, HUGE, None, True),
    ('none of it', {4: 262144, HUGE: 0}, HUGE, None, False),
    ('no such size', {4: 262144}, HUGE, None, False),
    ('small', {4: 262144, HUGE: 0}, SMALL, None, True),
    ('no small', {4: 0, HUGE: 1}, SMALL, None, False),
    ('no large', {4: 262144, HUGE: 0}, LARGE, None, False),
    ('large', {4: 0, HUGE: 1}, LARGE, None, True),
    ('any', {4: 0, 2048: 512, HUGE: 0}, ANY, None, True),
    ('no pages at all', {}, ANY, None, False),
    ('memory without pages', {}, None, None, True),
    ('free memory without pages', {}, None, 'dedicated', True),
    ('free pages', {4: 262144}, None, 'dedicated', True),
    ('too few pages', {4: 262143}, None, 'dedicated', False),
)
def test_memory_counts_only_pages_of_suitable_size(pages, asked, policy, expected):
    guest = guest_topology(guest_cell(policy=policy, pagesize=asked))
    assert enough(guest, topology(numa_cell(pages=pages))) == [expected]


def test_before_30_no_page_size_means_all_free_memory():
    """Small pages are used up, and half of the memory is left; or the other way."""
    by, pinned = Fitting(pins_within_free_memory=True), dedicated(1)
    used_up = topology(numa_cell(pages={4: 0}, memory_usage=0))
    assert enough(pinned, used_up, by=by) == [False]  # not even in all there are
    full = topology(numa_cell(pages={4: 1048576}, memory=4096, memory_usage=4000))
    assert enough(pinned, full, by=by) == [False]
    assert enough(pinned, full) == [True]


def test_nodes_that_ask_for_different_pages_are_left_to_the_fit():
    cells = guest_cell(0, pagesize=4), guest_cell(1, pagesize=HUGE)
    two = topology(numa_cell(0, range(4)), numa_cell(1, range(4, 8)))
    assert enough(guest_topology(*cells), two) == [True]


@pytest.mark.parametrize('seed', range(20))
def test_fitting_host_passes_the_precheck(seed):
    rng = random.Random(seed)
    hosts = [topology(*_cells(rng)) for _ in range(20)]
    policy = rng.choice([None, 'dedicated', 'mixed'])
    pagesize = rng.choice([None, 4, HUGE, SMALL, LARGE, ANY])
    guest = guest_topology(
        *(
            guest_cell(n, range(rng.randrange(1, 4)), policy, 1024, pagesize=pagesize)
            for n in range(rng.randrange(1, 4))
        ),
        emulator=rng.choice([None, 'isolate']) if policy else None,
    )
    for fitting in Fitting(), Fitting(pins_within_free_memory=True):
        for host, room in zip(hosts, enough(guest, *hosts, by=fitting), strict=True):
            asked = guest_of(guest, fitting)
            assert room or not fitting.attempt(host.cells, asked, None, None).fits


def _cells(rng):
    for number in range(rng.randrange(1, 7)):
        cpus = range(number * 4, number * 4 + rng.randrange(1, 5))
        pinned = rng.sample(cpus, rng.randrange(len(cpus)))
        pages = {4: rng.choice([0, 262144]), HUGE: rng.randrange(3)}
        yield numa_cell(number, cpus, pinned, pages=pages)

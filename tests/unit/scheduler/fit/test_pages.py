# SPDX-License-Identifier: Apache-2.0
"""Which pages a guest node gets, and whether there is memory without asking."""

from __future__ import annotations

import pytest

from novasched.scheduler.fit import pages
from novasched.scheduler.fit.guests import ANY, LARGE, SMALL
from novasched.scheduler.fit.topology import Pages
from novasched.scheduler.reasons import Code
from tests import topologies

SMALL_PAGES, MIDDLE, HUGE = Pages(4, 300000), Pages(2048, 600), Pages(1048576, 1)
ALL = (MIDDLE, SMALL_PAGES, HUGE)


@pytest.mark.parametrize(('asked', 'memory', 'host', 'size_kb'), [
    pytest.param(SMALL, 1024, ALL, 4, id='small is the smallest there is'),
    pytest.param(LARGE, 1024, ALL, 1048576, id='large begins with the largest'),
    pytest.param(LARGE, 1026, ALL, 2048, id='memory that is no whole huge page'),
    pytest.param(ANY, 1025, ALL, 4, id='any goes down to the smallest'),
    pytest.param(2048, 1200, ALL, 2048, id='as many as are free'),
    pytest.param(4, 1024, (Pages(4, 262144),), 4, id='the smallest, by its size'),
    pytest.param(
        4, 4, (Pages(4, 1024), Pages(4, 0)), 4, id='the first of two entries counts'
    ),
])  # fmt: skip
def test_the_largest_pages_that_will_do(asked, memory, host, size_kb):
    cell = topologies.host_cell(mempages=host)
    wanted = topologies.guest_cell(shared={0}, memory=memory, pagesize=asked)
    assert pages.choose(cell, wanted) == size_kb


@pytest.mark.parametrize(('asked', 'memory', 'host', 'code', 'text'), [
    pytest.param(
        16384, 1024, ALL, Code.PAGE_SIZE_MISSING, 'no pages of 16 MiB',
        id='a size that the node does not have',
    ),
    pytest.param(
        LARGE, 1024, (SMALL_PAGES,), Code.PAGE_SIZE_MISSING, 'no large pages',
        id='the only size is not large',
    ),
    pytest.param(
        SMALL, 1024, (), Code.PAGE_SIZE_MISSING, 'no small pages', id='no page data'
    ),
    pytest.param(
        ANY, 1024, (), Code.PAGE_SIZE_MISSING, 'no pages', id='no page data for any'
    ),
    pytest.param(
        2048, 1025, ALL, Code.NOT_ENOUGH_PAGES,
        '1025 MiB are not whole pages of 2 MiB', id='half a page',
    ),
    pytest.param(
        2048, 1024, (Pages(2048, 600, 50, 40),), Code.NOT_ENOUGH_PAGES,
        '510 of 512 pages of 2 MiB free', id='used and reserved pages count',
    ),
    pytest.param(
        LARGE, 2048, ALL, Code.NOT_ENOUGH_PAGES,
        '1 of 2 pages of 1 GiB free and 600 of 1024 pages of 2 MiB free',
        id='several sizes',
    ),
    pytest.param(
        -8, 1024, (Pages(-8, 10),), Code.NOT_ENOUGH_PAGES,
        '1024 MiB are not whole pages of -8 KiB', id='a size below zero is refused',
    ),
])  # fmt: skip
def test_why_no_pages_will_do(asked, memory, host, code, text):
    cell = topologies.host_cell(mempages=host)
    wanted = topologies.guest_cell(shared={0}, memory=memory, pagesize=asked)
    refused = pages.choose(cell, wanted)
    assert (refused.code, refused.text) == (code, text)


@pytest.mark.parametrize(('cpus', 'memory', 'host', 'text'), [
    pytest.param(
        {'shared': {0}}, 1024, {'mempages': (Pages(4, 262144, 262144),)}, None,
        id='shared memory may be used by others',
    ),
    pytest.param(
        {'dedicated': {0}}, 1024, {'mempages': (Pages(4, 262144, 1),)},
        '1023 of 1024 MiB free', id='dedicated memory must be free',
    ),
    pytest.param(
        {'shared': {0}}, 1025, {'mempages': (Pages(4, 262144),)},
        '1024 of 1025 MiB', id='no more than there is at all',
    ),
    pytest.param(
        {'shared': {0}}, 1023, {'mempages': (Pages(2048, 512),)},
        '1023 MiB are not whole pages of 2 MiB', id='half a page',
    ),
    pytest.param(
        {'shared': {0}}, 4096, {'mempages': (), 'memory_usage': 4000}, None,
        id='without page data all memory counts',
    ),
    pytest.param(
        {'shared': {0}}, 4097, {'mempages': ()}, '4096 of 4097 MiB',
        id='without page data, too much',
    ),
    pytest.param(
        {'dedicated': {0}}, 97, {'mempages': (), 'memory_usage': 4000},
        '96 of 97 MiB free', id='without page data, dedicated memory must be free',
    ),
])  # fmt: skip
def test_memory_without_a_page_size(cpus, memory, host, text):
    cell = topologies.host_cell(**host)
    refused = pages.lacking(cell, topologies.guest_cell(memory=memory, **cpus))
    assert (refused and refused.text) == text

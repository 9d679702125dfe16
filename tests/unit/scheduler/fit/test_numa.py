# SPDX-License-Identifier: Apache-2.0
"""Fit of one guest cell on one host cell: memory, pages and pinned CPUs."""

import dataclasses

from novasched.scheduler.fit.numa import (
    CellRefusal,
    choose_page_size,
    examine,
    fit_pair,
    memory_shortage,
    pin_cpus,
)
from novasched.scheduler.fit.topology import ANY, LARGE, SMALL, CellLimits, Pages
from novasched.scheduler.reasons import Code
from tests.support.clouds import topologies
from tests.support.tables.cases import cases

STRICT = CellLimits(1.0, 1.0)
HUGE = (Pages(4, 1048576), Pages(2048, 600))
CODES = (
    Code.NODE_DATA_MISSING,
    Code.NOT_ENOUGH_DEDICATED_CPUS,
    Code.NOT_ENOUGH_NODE_CPUS,
    Code.NOT_ENOUGH_NODE_MEMORY,
)
NO_DATA, DEDICATED, SHARED, MEMORY = CODES


@cases('host, guest, code, text',
    ('more shared CPUs than the node has', {}, {'shared': range(5)}, SHARED,
     '4 of 5 shared CPUs'),
    ('more dedicated CPUs than the node has', {'pcpuset': {0}}, {'dedicated': {0, 1}},
     DEDICATED, '1 of 2 dedicated CPUs'),
    ('more dedicated CPUs than are free', {'pinned_cpus': {0, 1, 2}},
     {'dedicated': {0, 1}}, DEDICATED, '1 of 2 dedicated CPUs free'),
    ('an old compute', {'pcpuset': None}, {'dedicated': {0}}, NO_DATA,
     'the compute reports no dedicated CPUs'),
    ('no cores', {'siblings': ()}, {'dedicated': {0}}, NO_DATA,
     'no CPU cores are reported'),
    ('over the ratio of CPUs', {'cpu_usage': 4}, {'shared': {0}}, SHARED,
     'CPUs used: 4 + 1 is over 4 (4 CPUs x 1.0)'),
    ('over the ratio of memory', {'memory_usage': 4000}, {'shared': {0}}, MEMORY,
     'MiB used: 4000 + 1024 is over 4096 (4096 MiB x 1.0)'),
    ('more memory than the node has', {}, {'shared': {0}, 'memory': 5000}, MEMORY,
     '4096 of 5000 MiB'),
    ('no such pages', {}, {'shared': {0}, 'pagesize': 2048}, Code.PAGE_SIZE_MISSING,
     'no pages of 2 MiB'),
)  # fmt: skip
def test_it_does_not_fit(host, guest, code, text):
    cell = topologies.host_cell(**host)
    refused = fit_pair(cell, topologies.guest_cell(**guest), STRICT, 0)
    assert isinstance(refused, CellRefusal)
    assert (refused.code, refused.text) == (code, text)


def test_the_emulator_needs_a_cpu_more():
    cell, wanted = topologies.host_cell(), topologies.guest_cell(dedicated={0, 1, 2})
    assert fit_pair(cell, wanted, None, 1).reserved == {3}
    refused = fit_pair(cell, topologies.guest_cell(dedicated=range(4)), None, 1)
    assert refused.text == '4 of 5 dedicated CPUs'


def test_the_product_with_the_ratio_is_not_rounded():
    host = topologies.host_cell(memory=100, memory_usage=15, mempages=())
    wanted = topologies.guest_cell(shared={0}, memory=100)
    assert fit_pair(host, wanted, CellLimits(1.0, 1.2), 0).id == 0
    refused = fit_pair(host, wanted, CellLimits(1.0, 1.15), 0)
    assert refused.text == (
        'MiB used: 15 + 100 is over 114.99999999999999 (100 MiB x 1.15)'
    )


def test_how_far_a_guest_node_got_before_it_was_refused():
    host = topologies.host_cell(id=8, mempages=HUGE, cpu_usage=4)
    wanted = topologies.guest_cell(shared={0}, dedicated={1}, pagesize=LARGE)
    got, refused = examine(host, wanted, STRICT, 0)
    assert refused.code is SHARED
    assert (got.id, got.pagesize, got.pinning) == (8, 2048, ((1, 0),))


def test_negative_amount_is_shown_as_zero():
    assert CellRefusal.too_few(Code.NOT_ENOUGH_PAGES, -3, 4, 'pages').have == '0'


SMALL_PAGES, MIDDLE, HUGE_PAGES = Pages(4, 300000), Pages(2048, 600), Pages(1048576, 1)
ALL = (MIDDLE, SMALL_PAGES, HUGE_PAGES)


@cases('asked, memory, host, code, text',
    ('a size that the node does not have', 16384, 1024, ALL, Code.PAGE_SIZE_MISSING,
     'no pages of 16 MiB'),
    ('the only size is not large', LARGE, 1024, (SMALL_PAGES,), Code.PAGE_SIZE_MISSING,
     'no large pages'),
    ('no page data', SMALL, 1024, (), Code.PAGE_SIZE_MISSING, 'no small pages'),
    ('no page data for any', ANY, 1024, (), Code.PAGE_SIZE_MISSING, 'no pages'),
    ('half a page', 2048, 1025, ALL, Code.NOT_ENOUGH_PAGES,
     '1025 MiB are not whole pages of 2 MiB'),
    ('used and reserved pages count', 2048, 1024, (Pages(2048, 600, 50, 40),),
     Code.NOT_ENOUGH_PAGES, '510 of 512 pages of 2 MiB free'),
    ('several sizes', LARGE, 2048, ALL, Code.NOT_ENOUGH_PAGES,
     '1 of 2 pages of 1 GiB free and 600 of 1024 pages of 2 MiB free'),
    ('a size below zero is refused', -8, 1024, (Pages(-8, 10),), Code.NOT_ENOUGH_PAGES,
     '1024 MiB are not whole pages of -8 KiB'),
)  # fmt: skip
def test_refused_page_size_has_its_reason(asked, memory, host, code, text):
    cell = topologies.host_cell(mempages=host)
    wanted = topologies.guest_cell(shared={0}, memory=memory, pagesize=asked)
    refused = choose_page_size(cell, wanted)
    assert (refused.code, refused.text) == (code, text)


@cases('cpus, memory, host, text',
    ('shared memory may be used by others', {'shared': {0}}, 1024,
     {'mempages': (Pages(4, 262144, 262144),)}, None),
    ('dedicated memory must be free', {'dedicated': {0}}, 1024,
     {'mempages': (Pages(4, 262144, 1),)}, '1023 of 1024 MiB free'),
    ('no more than there is at all', {'shared': {0}}, 1025,
     {'mempages': (Pages(4, 262144),)}, '1024 of 1025 MiB'),
    ('half a page', {'shared': {0}}, 1023, {'mempages': (Pages(2048, 512),)},
     '1023 MiB are not whole pages of 2 MiB'),
    ('without page data all memory counts', {'shared': {0}}, 4096,
     {'mempages': (), 'memory_usage': 4000}, None),
    ('without page data, too much', {'shared': {0}}, 4097, {'mempages': ()},
     '4096 of 4097 MiB'),
    ('without page data, dedicated memory must be free', {'dedicated': {0}}, 97,
     {'mempages': (), 'memory_usage': 4000}, '96 of 97 MiB free'),
)  # fmt: skip
def test_memory_without_a_page_size(cpus, memory, host, text):
    cell = topologies.host_cell(**host)
    refused = memory_shortage(cell, topologies.guest_cell(memory=memory, **cpus))
    assert (refused and refused.text) == text


SOME_HUGE = (Pages(4, 262144, 131072), Pages(2048, 512))


@cases('guest, host, since_30, until_29',
    ('huge pages that are free, on a cell that is full by accounts',
     {'dedicated': {0}, 'pagesize': 2048},
     {'mempages': SOME_HUGE, 'memory_usage': 3500}, None, '596 of 1024 MiB free'),
    ('no page size, small pages used up, but not the memory',
     {'dedicated': {0}}, {'mempages': (Pages(4, 262144, 262144),)},
     '0 of 1024 MiB free', None),
    ('no page size, and no memory either',
     {'dedicated': {0}},
     {'mempages': (Pages(4, 262144, 262144),), 'memory_usage': 4000},
     '0 of 1024 MiB free', '96 of 1024 MiB free'),
    ('more than all small pages', {'dedicated': {0}, 'memory': 2048},
     {'mempages': (Pages(4, 262144),)}, '1024 of 2048 MiB free', '1024 of 2048 MiB'),
    ('no pages are reported', {'dedicated': {0}},
     {'mempages': (), 'memory_usage': 4000}, '96 of 1024 MiB free',
     '96 of 1024 MiB free'),
    ('shared CPUs are as ever', {'shared': {0}},
     {'mempages': (Pages(4, 262144, 262144),), 'memory_usage': 4000}, None, None),
    ('too few CPUs come first', {'dedicated': {0}},
     {'pinned_cpus': {0, 1, 2, 3}, 'memory_usage': 4000, 'mempages': ()},
     '96 of 1024 MiB free', '0 of 1 dedicated CPUs free'),
)  # fmt: skip
def test_memory_of_pinned_guests_by_release(guest, host, since_30, until_29):
    cell = topologies.host_cell(**host)
    wanted = topologies.guest_cell(**guest)
    for within, expected in ((False, since_30), (True, until_29)):
        asked = dataclasses.replace(wanted, within_free_memory=within)
        _, refused = examine(cell, asked, None, 0)
        assert (refused and refused.text) == expected


CORES = ((0, 4), (1, 5), (2, 6), (3, 7))
SINGLE = ((0,), (1,), (2,), (3,))
BROKEN, PAIR, THREE_SINGLES, LINE = {0}, {0, 1}, {0, 1, 7}, {0, 1, 3, 7}


def pinned(count, policy=None, reserve=0, cores=CORES, taken=(), **given):
    host = topologies.host_cell(cores=cores, pinned_cpus=set(taken), **given)
    guest = topologies.guest_cell(
        dedicated=range(count), cpu_policy='dedicated', cpu_thread_policy=policy
    )
    return pin_cpus(host, guest, reserve)


@cases('asked, used, reserved',
    ('whole cores first', {'count': 4}, (0, 4, 1, 5), ()),
    ('an odd number', {'count': 3, 'policy': 'require'}, (0, 4, 1), ()),
    ('a core in use is left out', {'count': 2, 'policy': 'prefer', 'taken': BROKEN},
     (1, 5), ()),
    ('a whole core is broken', {'count': 1, 'taken': BROKEN}, (1,), ()),
    ('one thread of each core', {'count': 4, 'taken': THREE_SINGLES}, (4, 5, 2, 3), ()),
    ('any free ones in line', {'count': 4, 'taken': LINE}, (4, 5, 2, 6), ()),
    ('one thread of a whole core', {'count': 2, 'policy': 'isolate'}, (0, 1), ()),
    ('isolated without threads, CPUs set apart',
     {'count': 2, 'policy': 'isolate', 'cores': SINGLE, 'cpuset': set()}, (0, 1), ()),
    ('beside: one for the emulator', {'count': 3, 'reserve': 1}, (0, 4, 1), (5,)),
    ('the emulator gets the broken core', {'count': 4, 'reserve': 1, 'taken': BROKEN},
     (1, 5, 2, 6), (4,)),
    ('from what is in line', {'count': 2, 'reserve': 1, 'taken': {0, 1, 2, 3, 7}},
     (4, 5), (6,)),
    ('the emulator gets another core', {'count': 2, 'policy': 'isolate', 'reserve': 1},
     (0, 1), (2,)),
    ('no dedicated CPU', {'count': 0}, (), ()),
    ('no dedicated CPU, with threads', {'count': 0, 'policy': 'require'}, (), ()),
)  # fmt: skip
def test_cpus_are_taken(asked, used, reserved):
    assert pinned(**asked) == (used, reserved)


@cases('asked, code, text',
    ('no cores', {'count': 1, 'cores': (), 'pcpuset': {0}}, Code.NODE_DATA_MISSING,
     'no CPU cores are reported'),
    ('a CPU that is on no core', {'count': 2, 'pcpuset': {0, 9}},
     Code.NOT_ENOUGH_DEDICATED_CPUS, '1 of 2 dedicated CPUs free on cores'),
    ('threads required and there are none',
     {'count': 2, 'policy': 'require', 'cores': SINGLE}, Code.THREADS_DO_NOT_FIT,
     'no core has a second thread'),
    ('threads required and too few are together',
     {'count': 4, 'policy': 'require', 'taken': THREE_SINGLES}, Code.THREADS_DO_NOT_FIT,
     '2 of 4 CPUs free on cores with two free threads'),
    ('threads required and no pair',
     {'count': 2, 'policy': 'require', 'taken': THREE_SINGLES | {3, 5}, 'reserve': 0,
      'pcpuset': {0, 1, 3, 4, 5, 7}}, Code.THREADS_DO_NOT_FIT,
     '0 of 2 CPUs free on cores with two free threads'),
    ('isolated threads on CPUs set apart',
     {'count': 2, 'policy': 'isolate', 'cpuset': {0, 4}}, Code.THREADS_DO_NOT_FIT,
     'isolate needs a host without cpu_dedicated_set, or without SMT'),
    ('too few whole cores', {'count': 4, 'policy': 'isolate', 'taken': BROKEN},
     Code.THREADS_DO_NOT_FIT, '3 of 4 whole cores free'),
    ('nothing to isolate', {'count': 0, 'policy': 'isolate'}, Code.THREADS_DO_NOT_FIT,
     'no dedicated CPU to isolate'),
    ('isolated, and no core left', {'count': 4, 'policy': 'isolate', 'reserve': 1},
     Code.NOT_ENOUGH_DEDICATED_CPUS, 'no CPU is left for the emulator'),
    ('no CPU left', {'count': 8, 'reserve': 1}, Code.NOT_ENOUGH_DEDICATED_CPUS,
     'no CPU is left for the emulator'),
    ('threads required, and no CPU left',
     {'count': 8, 'policy': 'require', 'reserve': 1}, Code.NOT_ENOUGH_DEDICATED_CPUS,
     'no CPU is left for the emulator'),
    ('no dedicated CPU to be beside of', {'count': 0, 'reserve': 1},
     Code.NOT_ENOUGH_DEDICATED_CPUS, 'no CPU is left for the emulator'),
    ('threads required for nothing, and none are together',
     {'count': 0, 'policy': 'require', 'taken': {0, 1, 2, 3}}, Code.THREADS_DO_NOT_FIT,
     'no core has two free threads'),
)  # fmt: skip
def test_why_cpus_are_not_taken(asked, code, text):
    refused = pinned(**asked)
    assert (refused.code, refused.text) == (code, text)

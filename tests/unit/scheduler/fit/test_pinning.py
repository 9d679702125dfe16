# SPDX-License-Identifier: Apache-2.0
"""Which CPUs dedicated guest CPUs get, by thread policy."""

from __future__ import annotations

import pytest

from novasched.scheduler.fit import pinning
from novasched.scheduler.reasons import Code
from tests import topologies

CORES = ((0, 4), (1, 5), (2, 6), (3, 7))
SINGLE = ((0,), (1,), (2,), (3,))
BROKEN, PAIR, THREE_SINGLES, LINE = {0}, {0, 1}, {0, 1, 7}, {0, 1, 3, 7}


def pinned(count, policy=None, reserve=0, cores=CORES, taken=(), **given):
    host = topologies.host_cell(cores=cores, pinned_cpus=set(taken), **given)
    guest = topologies.guest_cell(
        dedicated=range(count), cpu_policy='dedicated', cpu_thread_policy=policy
    )
    return pinning.pin(host, guest, reserve)


@pytest.mark.parametrize(('asked', 'used', 'reserved'), [
    pytest.param({'count': 4}, (0, 4, 1, 5), (), id='whole cores first'),
    pytest.param({'count': 3, 'policy': 'require'}, (0, 4, 1), (), id='an odd number'),
    pytest.param(
        {'count': 2, 'policy': 'prefer', 'taken': BROKEN}, (1, 5), (),
        id='a core in use is left out',
    ),
    pytest.param({'count': 1, 'taken': BROKEN}, (1,), (), id='a whole core is broken'),
    pytest.param(
        {'count': 4, 'taken': THREE_SINGLES}, (4, 5, 2, 3), (),
        id='one thread of each core',
    ),
    pytest.param(
        {'count': 4, 'taken': LINE}, (4, 5, 2, 6), (), id='any free ones in line'
    ),
    pytest.param(
        {'count': 2, 'policy': 'isolate'}, (0, 1), (), id='one thread of a whole core'
    ),
    pytest.param(
        {'count': 2, 'policy': 'isolate', 'cores': SINGLE, 'cpuset': set()},
        (0, 1), (), id='isolated without threads, CPUs set apart',
    ),
    pytest.param(
        {'count': 3, 'reserve': 1}, (0, 4, 1), (5,), id='beside: one for the emulator'
    ),
    pytest.param(
        {'count': 4, 'reserve': 1, 'taken': BROKEN}, (1, 5, 2, 6), (4,),
        id='the emulator gets the broken core',
    ),
    pytest.param(
        {'count': 2, 'reserve': 1, 'taken': {0, 1, 2, 3, 7}}, (4, 5), (6,),
        id='from what is in line',
    ),
    pytest.param(
        {'count': 2, 'policy': 'isolate', 'reserve': 1}, (0, 1), (2,),
        id='the emulator gets another core',
    ),
    pytest.param({'count': 0}, (), (), id='no dedicated CPU'),
    pytest.param(
        {'count': 0, 'policy': 'require'}, (), (), id='no dedicated CPU, with threads'
    ),
])  # fmt: skip
def test_cpus_are_taken(asked, used, reserved):
    assert pinned(**asked) == (used, reserved)


@pytest.mark.parametrize(('asked', 'code', 'text'), [
    pytest.param(
        {'count': 1, 'cores': (), 'pcpuset': {0}}, Code.NODE_DATA_MISSING,
        'no CPU cores are reported', id='no cores',
    ),
    pytest.param(
        {'count': 2, 'pcpuset': {0, 9}}, Code.NOT_ENOUGH_DEDICATED_CPUS,
        '1 of 2 dedicated CPUs free on cores', id='a CPU that is on no core',
    ),
    pytest.param(
        {'count': 2, 'policy': 'require', 'cores': SINGLE}, Code.THREADS_DO_NOT_FIT,
        'no core has a second thread', id='threads required and there are none',
    ),
    pytest.param(
        {'count': 4, 'policy': 'require', 'taken': THREE_SINGLES},
        Code.THREADS_DO_NOT_FIT, '2 of 4 CPUs free on cores with two free threads',
        id='threads required and too few are together',
    ),
    pytest.param(
        {'count': 2, 'policy': 'require', 'taken': THREE_SINGLES | {3, 5}, 'reserve': 0,
         'pcpuset': {0, 1, 3, 4, 5, 7}},
        Code.THREADS_DO_NOT_FIT, '0 of 2 CPUs free on cores with two free threads',
        id='threads required and no pair',
    ),
    pytest.param(
        {'count': 2, 'policy': 'isolate', 'cpuset': {0, 4}}, Code.THREADS_DO_NOT_FIT,
        'isolate needs a host without cpu_dedicated_set, or without SMT',
        id='isolated threads on CPUs set apart',
    ),
    pytest.param(
        {'count': 4, 'policy': 'isolate', 'taken': BROKEN}, Code.THREADS_DO_NOT_FIT,
        '3 of 4 whole cores free', id='too few whole cores',
    ),
    pytest.param(
        {'count': 0, 'policy': 'isolate'}, Code.THREADS_DO_NOT_FIT,
        'no dedicated CPU to isolate', id='nothing to isolate',
    ),
    pytest.param(
        {'count': 4, 'policy': 'isolate', 'reserve': 1},
        Code.NOT_ENOUGH_DEDICATED_CPUS, 'no CPU is left for the emulator',
        id='isolated, and no core left',
    ),
    pytest.param(
        {'count': 8, 'reserve': 1}, Code.NOT_ENOUGH_DEDICATED_CPUS,
        'no CPU is left for the emulator', id='no CPU left',
    ),
    pytest.param(
        {'count': 8, 'policy': 'require', 'reserve': 1},
        Code.NOT_ENOUGH_DEDICATED_CPUS, 'no CPU is left for the emulator',
        id='threads required, and no CPU left',
    ),
    pytest.param(
        {'count': 0, 'reserve': 1}, Code.NOT_ENOUGH_DEDICATED_CPUS,
        'no CPU is left for the emulator', id='no dedicated CPU to be beside of',
    ),
    pytest.param(
        {'count': 0, 'policy': 'require', 'taken': {0, 1, 2, 3}},
        Code.THREADS_DO_NOT_FIT, 'no core has two free threads',
        id='threads required for nothing, and none are together',
    ),
])  # fmt: skip
def test_why_cpus_are_not_taken(asked, code, text):
    refused = pinned(**asked)
    assert (refused.code, refused.text) == (code, text)

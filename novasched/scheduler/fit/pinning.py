# SPDX-License-Identifier: Apache-2.0
"""Which CPUs of a node the dedicated CPUs of a guest node get."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from novasched.scheduler.fit.guests import GuestCell
from novasched.scheduler.fit.refused import Refused
from novasched.scheduler.fit.topology import HostCell
from novasched.scheduler.reasons import Code

Cores = Sequence[Sequence[int]]


class Pinned(NamedTuple):
    """Host CPUs, in the order in which the guest's CPUs get them."""

    used: tuple[int, ...] = ()
    reserved: tuple[int, ...] = ()


def pin(host: HostCell, guest: GuestCell, reserve: int) -> Pinned | Refused:
    """Return CPUs for the guest node, and ``reserve`` more for the emulator.

    Threads of one core are taken in the order of their numbers. Nova:
    virt/hardware.py.
    """
    if not host.threads_per_core:
        return Refused(Code.NODE_DATA_MISSING, 'no CPU cores are reported')
    cores = [sorted(core) for core in host.free_cores if core]
    if guest.cpu_thread_policy == 'isolate':
        return _isolated(host, guest, cores, reserve)
    if guest.cpu_thread_policy == 'require' and host.threads_per_core < 2:
        return _refused('no core has a second thread')
    if not guest.pcpuset:
        return _nothing(guest, cores, reserve)
    return _packed(host, guest, cores, reserve)


def _refused(text: str) -> Refused:
    return Refused(Code.THREADS_DO_NOT_FIT, text)


def _no_emulator_cpu() -> Refused:
    return Refused(Code.NOT_ENOUGH_DEDICATED_CPUS, 'no CPU is left for the emulator')


def _nothing(guest: GuestCell, cores: Cores, reserve: int) -> Pinned | Refused:
    """Return no CPUs for a mixed node without dedicated ones, if nova does.

    The emulator gets no CPU beside such a node, and ``require`` wants a core with
    two free threads even so.
    """
    if reserve:
        return _no_emulator_cpu()
    if guest.cpu_thread_policy == 'require' and not _with(2, cores):
        return _refused('no core has two free threads')
    return Pinned()


def _with(threads: int, cores: Cores) -> list[Sequence[int]]:
    return [core for core in cores if len(core) >= threads]


def _taken(threads: int, cores: Cores, count: int) -> tuple[int, ...]:
    """Return ``count`` CPUs, some of each core in turn; none if too few."""
    able = _with(threads, cores)
    if threads * len(able) < count:
        return ()
    return tuple(cpu for core in able for cpu in core[:threads])[:count]


def _isolated(
    host: HostCell, guest: GuestCell, cores: Cores, reserve: int
) -> Pinned | Refused:
    """Return one CPU of each of as many whole cores.

    On nodes with threads only where one set of CPUs serves all guests: elsewhere
    placement counts threads, and would hand out those that stay idle. Without
    dedicated CPUs there is nothing that nova would call a success.
    """
    threads = host.threads_per_core
    if threads > 1 and host.pcpuset != host.cpuset:
        text = 'isolate needs a host without cpu_dedicated_set, or without SMT'
        return _refused(text)
    whole = _with(threads, cores)
    count = len(guest.pcpuset)
    used = _taken(1, whole, count)
    if not count:
        return _refused('no dedicated CPU to isolate')
    if not used:
        words = 'whole cores free'
        return Refused.too_few(Code.THREADS_DO_NOT_FIT, len(whole), count, words)
    others = [core for core in cores if not set(used).intersection(core)]
    reserved = _left((), others, reserve)
    if len(reserved) < reserve:
        return _no_emulator_cpu()
    return Pinned(used, reserved)


def _packed(
    host: HostCell, guest: GuestCell, cores: Cores, reserve: int
) -> Pinned | Refused:
    """Return CPUs on cores with as many free threads as possible."""
    requires = guest.cpu_thread_policy == 'require'
    count = len(guest.pcpuset)
    short_of_reserve = False
    for threads in range(host.threads_per_core, 1 if requires else 0, -1):
        used = _taken(threads, cores, count)
        reserved = _left(used, cores, reserve)
        if used and len(reserved) == reserve:
            return Pinned(used, reserved)
        short_of_reserve = short_of_reserve or bool(used)
    if requires:
        if short_of_reserve:
            return _no_emulator_cpu()
        have = sum(len(core) for core in _with(2, cores))
        words = 'CPUs free on cores with two free threads'
        return Refused.too_few(Code.THREADS_DO_NOT_FIT, have, count, words)
    return _line(cores, count, reserve)


def _line(cores: Cores, count: int, reserve: int) -> Pinned | Refused:
    """Return the first free CPUs, core by core."""
    used = tuple(itertools.chain.from_iterable(cores))[:count]
    reserved = _left(used, cores, reserve)
    if len(used) < count:
        words = 'dedicated CPUs free on cores'
        code = Code.NOT_ENOUGH_DEDICATED_CPUS
        return Refused.too_few(code, len(used), count, words)
    if len(reserved) < reserve:
        return _no_emulator_cpu()
    return Pinned(used, reserved)


def _left(used: Sequence[int], cores: Cores, reserve: int) -> tuple[int, ...]:
    """Return the first ``reserve`` CPUs that are not used, core by core."""
    free = (cpu for core in cores for cpu in core if cpu not in used)
    return tuple(itertools.islice(free, reserve))

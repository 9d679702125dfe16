# SPDX-License-Identifier: Apache-2.0
"""Fit of one guest cell on one host cell: memory, pages, CPUs and pinning."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from novasched.scheduler.fit.topology import (
    ANY,
    LARGE,
    SMALL,
    CellLimits,
    GuestCell,
    HostCell,
    Pages,
)
from novasched.scheduler.reasons import Code


class CellRefusal(NamedTuple):
    """Reason why a host cell cannot take a guest cell.

    ``have`` is the number that ``text`` begins with, ``want`` the number that would
    do; both are empty where the text is about something else.
    """

    code: Code
    text: str
    have: str = ''
    want: str = ''

    @classmethod
    def too_few(cls, code: Code, have: int, want: int, things: str) -> CellRefusal:
        """Return 'have of want things'; a negative number becomes 0."""
        have = max(have, 0)
        return cls(code, f'{have} of {want} {things}', str(have), str(want))


def fit_pair(
    host: HostCell, guest: GuestCell, limits: CellLimits | None, reserve: int
) -> GuestCell | CellRefusal:
    """Return the guest cell as it is on the host cell, or why it cannot be there.

    ``reserve`` is 1 where the emulator gets a CPU beside it. Without limits there
    are no ratios to keep to. Other guest cells are not looked at.
    """
    fitted, refused = examine(host, guest, limits, reserve)
    return fitted if refused is None else refused


def examine(
    host: HostCell, guest: GuestCell, limits: CellLimits | None, reserve: int
) -> tuple[GuestCell, CellRefusal | None]:
    """Return the guest cell as far as it was fitted, and why no further.

    Nova changes the guest cell as it goes: one that is refused may have a page
    size already, or even host CPUs. Nova: virt/hardware.py.
    """
    if guest.pagesize:
        chosen = choose_page_size(host, guest)
        if isinstance(chosen, CellRefusal):
            return guest, chosen
        if chosen != guest.pagesize:
            guest = dataclasses.replace(guest, pagesize=chosen)
    elif refused := memory_shortage(host, guest):
        return guest, refused
    if refused := _short_of_cpus(host, guest, reserve):
        return guest, refused
    if guest.pins:
        pinned = _pinned(host, guest, reserve)
        if isinstance(pinned, CellRefusal):
            return guest, pinned
        guest = pinned
    if limits and guest.shares and (refused := _over_limits(host, guest, limits)):
        return guest, refused
    if guest.id != host.id:
        guest = dataclasses.replace(guest, id=host.id)
    return guest, None


def _short_of_cpus(
    host: HostCell, guest: GuestCell, reserve: int
) -> CellRefusal | None:
    wanted = len(guest.pcpuset) + reserve
    if guest.pins:
        if host.pcpuset is None:
            text = 'the compute reports no dedicated CPUs'
            return CellRefusal(Code.NODE_DATA_MISSING, text)
        if wanted > len(host.pcpuset):
            code, have = Code.NOT_ENOUGH_DEDICATED_CPUS, len(host.pcpuset)
            return CellRefusal.too_few(code, have, wanted, 'dedicated CPUs')
    if guest.shares and len(guest.cpuset) > len(host.cpuset):
        code, have = Code.NOT_ENOUGH_NODE_CPUS, len(host.cpuset)
        return CellRefusal.too_few(code, have, len(guest.cpuset), 'shared CPUs')
    if guest.pins and wanted > len(host.free_cpus):
        code, have = Code.NOT_ENOUGH_DEDICATED_CPUS, len(host.free_cpus)
        return CellRefusal.too_few(code, have, wanted, 'dedicated CPUs free')
    return None


def _pinned(host: HostCell, guest: GuestCell, reserve: int) -> GuestCell | CellRefusal:
    have, want = host.free_memory, guest.memory
    if guest.within_free_memory and want > have:
        return CellRefusal.too_few(Code.NOT_ENOUGH_NODE_MEMORY, have, want, 'MiB free')
    pinned = pin_cpus(host, guest, reserve)
    if isinstance(pinned, CellRefusal):
        return pinned
    pairs = dict(guest.pinning or ())
    pairs.update(zip(sorted(guest.pcpuset), pinned.used, strict=True))
    return dataclasses.replace(
        guest,
        id=host.id,
        pinning=tuple(sorted(pairs.items())) or None,
        reserved=frozenset(pinned.reserved) or None,
    )


def _over_limits(
    host: HostCell, guest: GuestCell, limits: CellLimits
) -> CellRefusal | None:
    """Compare with products as they are, not rounded: 1.15 * 100 is below 115."""
    cpus, most_cpus = len(guest.cpuset), len(host.cpuset) * limits.cpu_allocation_ratio
    if host.cpu_usage + cpus > most_cpus:
        text = _over(
            f'CPUs used: {host.cpu_usage} + {cpus}',
            most_cpus,
            f'{len(host.cpuset)} CPUs x {limits.cpu_allocation_ratio}',
        )
        return CellRefusal(Code.NOT_ENOUGH_NODE_CPUS, text)
    most_mb = host.memory * limits.ram_allocation_ratio
    if host.memory_usage + guest.memory > most_mb:
        text = _over(
            f'MiB used: {host.memory_usage} + {guest.memory}',
            most_mb,
            f'{host.memory} MiB x {limits.ram_allocation_ratio}',
        )
        return CellRefusal(Code.NOT_ENOUGH_NODE_MEMORY, text)
    return None


def _over(used: str, most: float, product: str) -> str:
    return f'{used} is over {most:.17g} ({product})'


_MISSING = {SMALL: 'no small pages', LARGE: 'no large pages', ANY: 'no pages'}


def choose_page_size(host: HostCell, guest: GuestCell) -> int | CellRefusal:
    """Return the page size in KiB that a guest cell that asks for one gets.

    It is the largest size that it allows, that divides its memory and of which
    enough pages are free. Nova: virt/hardware.py.
    """
    allowed = _allowed(host, guest.pagesize)
    for pages in allowed:
        if _is_whole(guest, pages) and _pages_hold(pages.free, guest, pages):
            return pages.size_kb
    return _page_refusal(guest, allowed)


def _allowed(host: HostCell, asked: int | None) -> list[Pages]:
    """Return the pages that would do, largest first; the first of a size counts."""
    sizes = {pages.size_kb: pages for pages in reversed(host.mempages)}
    ordered = [sizes[size_kb] for size_kb in sorted(sizes, reverse=True)]
    if asked == SMALL:
        return ordered[-1:]
    if asked == LARGE:
        return ordered[:-1]
    if asked == ANY:
        return ordered
    return [pages for pages in ordered if pages.size_kb == asked]


def _is_whole(guest: GuestCell, pages: Pages) -> bool:
    return pages.size_kb > 0 and guest.memory * 1024 % pages.size_kb == 0


def _pages_hold(count: int, guest: GuestCell, pages: Pages) -> bool:
    return guest.memory * 1024 <= count * pages.size_kb


def _page_refusal(guest: GuestCell, allowed: list[Pages]) -> CellRefusal:
    if not allowed:
        asked = guest.pagesize or 0
        text = _MISSING.get(asked, f'no pages of {size_text(asked)}')
        return CellRefusal(Code.PAGE_SIZE_MISSING, text)
    fitting = [pages for pages in allowed if _is_whole(guest, pages)]
    if not fitting:
        return _not_whole(guest, allowed[-1])
    first, *others = (
        CellRefusal.too_few(
            Code.NOT_ENOUGH_PAGES,
            pages.free,
            guest.memory * 1024 // pages.size_kb,
            f'pages of {size_text(pages.size_kb)} free',
        )
        for pages in fitting
    )
    if not others:
        return first
    text = ' and '.join(refused.text for refused in (first, *others))
    return CellRefusal(first.code, text)


def _not_whole(guest: GuestCell, pages: Pages) -> CellRefusal:
    text = f'{guest.memory} MiB are not whole pages of {size_text(pages.size_kb)}'
    return CellRefusal(Code.NOT_ENOUGH_PAGES, text)


def memory_shortage(host: HostCell, guest: GuestCell) -> CellRefusal | None:
    """Return why a guest cell that asks for no page size lacks memory, or None.

    Only guest cells with dedicated CPUs need free memory: others may share the memory
    of the cell as far as the ratios allow. Guest cells that must fit into all free
    memory are checked against that later, not against free pages.
    """
    pages, of_free = host.smallest_pages, guest.pins and not guest.within_free_memory
    if pages is None:
        have = host.free_memory if of_free else host.memory
        enough = guest.memory <= have
    elif not _is_whole(guest, pages):
        return _not_whole(guest, pages)
    else:
        count = pages.free if of_free else pages.total
        enough = _pages_hold(count, guest, pages)
        have = count * pages.size_kb // 1024
    if enough:
        return None
    words = 'MiB free' if of_free else 'MiB'
    return CellRefusal.too_few(Code.NOT_ENOUGH_NODE_MEMORY, have, guest.memory, words)


def size_text(kib: int) -> str:
    """Return '4 KiB', '2 MiB' or '1 GiB': the largest unit of which it is a whole."""
    for unit, words in ((1024**2, 'GiB'), (1024, 'MiB')):
        if kib and kib % unit == 0:
            return f'{kib // unit} {words}'
    return f'{kib} KiB'


Cores = Sequence[Sequence[int]]


class PinnedCpus(NamedTuple):
    """Host CPUs, in the order in which the guest's CPUs get them."""

    used: tuple[int, ...] = ()
    reserved: tuple[int, ...] = ()


def pin_cpus(
    host: HostCell, guest: GuestCell, reserve: int
) -> PinnedCpus | CellRefusal:
    """Return CPUs for the guest cell, and ``reserve`` more for the emulator.

    Threads of one core are taken in the order of their numbers. Nova:
    virt/hardware.py.
    """
    if not host.threads_per_core:
        return CellRefusal(Code.NODE_DATA_MISSING, 'no CPU cores are reported')
    cores = [sorted(core) for core in host.free_cores if core]
    if guest.cpu_thread_policy == 'isolate':
        return _isolated(host, guest, cores, reserve)
    if guest.cpu_thread_policy == 'require' and host.threads_per_core < 2:
        return _thread_refusal('no core has a second thread')
    if not guest.pcpuset:
        return _without_dedicated(guest, cores, reserve)
    return _packed(host, guest, cores, reserve)


def _thread_refusal(text: str) -> CellRefusal:
    return CellRefusal(Code.THREADS_DO_NOT_FIT, text)


def _no_emulator_cpu() -> CellRefusal:
    return CellRefusal(
        Code.NOT_ENOUGH_DEDICATED_CPUS, 'no CPU is left for the emulator'
    )


def _without_dedicated(
    guest: GuestCell, cores: Cores, reserve: int
) -> PinnedCpus | CellRefusal:
    """Return no CPUs for a mixed cell without dedicated ones, if nova does.

    The emulator gets no CPU beside such a cell, and ``require`` wants a core with
    two free threads even so.
    """
    if reserve:
        return _no_emulator_cpu()
    if guest.cpu_thread_policy == 'require' and not _cores_with(2, cores):
        return _thread_refusal('no core has two free threads')
    return PinnedCpus()


def _cores_with(threads: int, cores: Cores) -> list[Sequence[int]]:
    return [core for core in cores if len(core) >= threads]


def _take(threads: int, cores: Cores, count: int) -> tuple[int, ...]:
    """Return ``count`` CPUs, some of each core in turn; none if too few."""
    able = _cores_with(threads, cores)
    if threads * len(able) < count:
        return ()
    return tuple(cpu for core in able for cpu in core[:threads])[:count]


def _isolated(
    host: HostCell, guest: GuestCell, cores: Cores, reserve: int
) -> PinnedCpus | CellRefusal:
    """Return one CPU of each of as many whole cores.

    On cells with threads only where one set of CPUs serves all guests: elsewhere
    placement counts threads, and would hand out those that stay idle. Without
    dedicated CPUs there is nothing that nova would call a success.
    """
    threads = host.threads_per_core
    if threads > 1 and host.pcpuset != host.cpuset:
        text = 'isolate needs a host without cpu_dedicated_set, or without SMT'
        return _thread_refusal(text)
    whole = _cores_with(threads, cores)
    count = len(guest.pcpuset)
    used = _take(1, whole, count)
    if not count:
        return _thread_refusal('no dedicated CPU to isolate')
    if not used:
        words = 'whole cores free'
        return CellRefusal.too_few(Code.THREADS_DO_NOT_FIT, len(whole), count, words)
    others = [core for core in cores if not set(used).intersection(core)]
    reserved = _unused((), others, reserve)
    if len(reserved) < reserve:
        return _no_emulator_cpu()
    return PinnedCpus(used, reserved)


def _packed(
    host: HostCell, guest: GuestCell, cores: Cores, reserve: int
) -> PinnedCpus | CellRefusal:
    """Return CPUs on cores with as many free threads as possible."""
    requires = guest.cpu_thread_policy == 'require'
    count = len(guest.pcpuset)
    short_of_reserve = False
    for threads in range(host.threads_per_core, 1 if requires else 0, -1):
        used = _take(threads, cores, count)
        reserved = _unused(used, cores, reserve)
        if used and len(reserved) == reserve:
            return PinnedCpus(used, reserved)
        short_of_reserve = short_of_reserve or bool(used)
    if requires:
        if short_of_reserve:
            return _no_emulator_cpu()
        have = sum(len(core) for core in _cores_with(2, cores))
        words = 'CPUs free on cores with two free threads'
        return CellRefusal.too_few(Code.THREADS_DO_NOT_FIT, have, count, words)
    return _first_free(cores, count, reserve)


def _first_free(cores: Cores, count: int, reserve: int) -> PinnedCpus | CellRefusal:
    """Return the first free CPUs, core by core."""
    used = tuple(itertools.chain.from_iterable(cores))[:count]
    reserved = _unused(used, cores, reserve)
    if len(used) < count:
        words = 'dedicated CPUs free on cores'
        code = Code.NOT_ENOUGH_DEDICATED_CPUS
        return CellRefusal.too_few(code, len(used), count, words)
    if len(reserved) < reserve:
        return _no_emulator_cpu()
    return PinnedCpus(used, reserved)


def _unused(used: Sequence[int], cores: Cores, reserve: int) -> tuple[int, ...]:
    """Return the first ``reserve`` CPUs that are not used, core by core."""
    free = (cpu for core in cores for cpu in core if cpu not in used)
    return tuple(itertools.islice(free, reserve))

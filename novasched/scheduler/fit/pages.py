# SPDX-License-Identifier: Apache-2.0
"""Whether a node has the memory that a guest node asks for, and in which pages."""

from __future__ import annotations

from novasched.scheduler.fit.guests import ANY, LARGE, SMALL, GuestCell
from novasched.scheduler.fit.refused import Refused
from novasched.scheduler.fit.topology import HostCell, Pages
from novasched.scheduler.reasons import Code

_MISSING = {SMALL: 'no small pages', LARGE: 'no large pages', ANY: 'no pages'}


def choose(host: HostCell, guest: GuestCell) -> int | Refused:
    """Return the page size in KiB that a guest node that asks for one gets.

    It is the largest size that it allows, that divides its memory and of which
    enough pages are free. Nova: virt/hardware.py.
    """
    allowed = _allowed(host, guest.pagesize)
    for pages in allowed:
        if _whole(guest, pages) and _holds(pages.free, guest, pages):
            return pages.size_kb
    return _why_not(guest, allowed)


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


def _whole(guest: GuestCell, pages: Pages) -> bool:
    return pages.size_kb > 0 and guest.memory * 1024 % pages.size_kb == 0


def _holds(count: int, guest: GuestCell, pages: Pages) -> bool:
    return guest.memory * 1024 <= count * pages.size_kb


def _why_not(guest: GuestCell, allowed: list[Pages]) -> Refused:
    if not allowed:
        asked = guest.pagesize or 0
        text = _MISSING.get(asked, f'no pages of {_size(asked)}')
        return Refused(Code.PAGE_SIZE_MISSING, text)
    fitting = [pages for pages in allowed if _whole(guest, pages)]
    if not fitting:
        return _not_whole(guest, allowed[-1])
    first, *others = (
        Refused.too_few(
            Code.NOT_ENOUGH_PAGES,
            pages.free,
            guest.memory * 1024 // pages.size_kb,
            f'pages of {_size(pages.size_kb)} free',
        )
        for pages in fitting
    )
    if not others:
        return first
    text = ' and '.join(refused.text for refused in (first, *others))
    return Refused(first.code, text)


def _not_whole(guest: GuestCell, pages: Pages) -> Refused:
    text = f'{guest.memory} MiB are not whole pages of {_size(pages.size_kb)}'
    return Refused(Code.NOT_ENOUGH_PAGES, text)


def lacking(host: HostCell, guest: GuestCell) -> Refused | None:
    """Return why a guest node that asks for no page size lacks memory, or None.

    Only guest nodes with CPUs of their own are held against what is free: others
    may share the memory of the node as far as the ratios allow.
    """
    pages = host.smallest_pages
    if pages is None:
        have = host.free_memory if guest.pins else host.memory
        enough = guest.memory <= have
    elif not _whole(guest, pages):
        return _not_whole(guest, pages)
    else:
        count = pages.free if guest.pins else pages.total
        enough = _holds(count, guest, pages)
        have = count * pages.size_kb // 1024
    if enough:
        return None
    words = 'MiB free' if guest.pins else 'MiB'
    return Refused.too_few(Code.NOT_ENOUGH_NODE_MEMORY, have, guest.memory, words)


def _size(kib: int) -> str:
    """Return '4 KiB', '2 MiB' or '1 GiB': the largest unit of which it is a whole."""
    for unit, words in ((1024**2, 'GiB'), (1024, 'MiB')):
        if kib and kib % unit == 0:
            return f'{kib // unit} {words}'
    return f'{kib} KiB'

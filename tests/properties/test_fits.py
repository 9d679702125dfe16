# SPDX-License-Identifier: Apache-2.0
"""Searches give what trying everything gives, and what they give is valid."""

import dataclasses
import itertools

from hypothesis import given
from hypothesis import strategies as st

from novasched.scheduler.fit.claim import with_usage
from novasched.scheduler.fit.explain import explain
from novasched.scheduler.fit.nova_search import fit_as_nova
from novasched.scheduler.fit.numa import CellRefusal, examine, fit_pair
from novasched.scheduler.fit.pci import DeviceRequest, Pool
from novasched.scheduler.fit.pci_allocation import HostDevices
from novasched.scheduler.fit.search import networks_elsewhere, ordered
from novasched.scheduler.fit.topology import (
    ANY,
    LARGE,
    SMALL,
    CellLimits,
    Guest,
    GuestCell,
    HostCell,
    Networks,
    Pages,
)
from tests.support.clouds.topologies import fit
from tests.support.tables.examples import examples

one_of = st.sampled_from
small = st.integers(0, 4)
networks = st.builds(Networks, st.frozensets(one_of('ab'), max_size=1), st.booleans())


@st.composite
def host_cells(draw, most=4):
    """Draw the nodes of a host; their CPUs serve all guests, or are set apart."""
    threads = draw(one_of([1, 2]))
    apart = draw(st.booleans())
    cells = []
    for n in range(draw(st.integers(1, most))):
        first = 8 * n
        cores = [
            frozenset(range(at, at + threads))
            for at in range(first, first + 8, threads)
        ]
        cpus = frozenset(range(first, first + 8))
        pcpuset = frozenset(sorted(cpus)[4:]) if apart else cpus
        cells.append(
            HostCell(
                # Not numbers that guest nodes have, but for the first two.
                id=n if n < 2 else 8 * n,
                cpuset=cpus - pcpuset if apart else cpus,
                pcpuset=pcpuset,
                memory=4096,
                cpu_usage=draw(small),
                memory_usage=draw(one_of([0, 512, 4096])),
                pinned_cpus=draw(st.frozensets(one_of(sorted(pcpuset)), max_size=4)),
                siblings=tuple(cores),
                mempages=tuple(draw(st.lists(pages, unique_by=lambda p: p.size_kb))),
                network_metadata=draw(st.none() | networks),
                socket=draw(one_of([0, 0, 1, 1, None])),
            )
        )
    return tuple(cells)


pages = st.builds(
    Pages, one_of([4, 2048, 1048576]), one_of([1, 512, 262144]), one_of([0, 0, 1, 512])
)


@st.composite
def guests(draw, most=4):
    policy = draw(one_of([None, 'shared', 'dedicated', 'mixed']))
    threads = draw(one_of([None, 'prefer', 'require', 'isolate'])) if policy else None
    pagesize = draw(one_of([None, None, SMALL, LARGE, ANY, 2048]))
    cells = []
    for n in range(draw(st.integers(1, most))):
        dedicated = draw(small) if policy in ('dedicated', 'mixed') else 0
        shared = draw(small) if policy != 'dedicated' else 0
        cells.append(
            GuestCell(
                id=n,
                cpuset=frozenset(range(10 * n, 10 * n + shared)),
                pcpuset=frozenset(range(10 * n + 5, 10 * n + 5 + dedicated)),
                memory=draw(one_of([2, 1024, 2048])),
                pagesize=pagesize,
                cpu_policy=policy,
                cpu_thread_policy=threads,
            )
        )
    isolates = policy in ('dedicated', 'mixed') and draw(st.booleans())
    return Guest(tuple(cells), isolates)


limits = st.none() | st.builds(
    CellLimits, one_of([1.0, 1.15, 4.0]), one_of([1.0, 1.5]), st.none() | networks
)
alternatives = st.lists(
    st.frozensets(one_of([('name', 'x'), ('name', 'y'), ('dev_type', 'type-PF')]),
                  min_size=1, max_size=1),
    min_size=1, max_size=2,
).map(tuple)  # fmt: skip
device_requests = st.builds(
    DeviceRequest,
    st.integers(1, 3),
    alternatives,
    one_of([None, 'alias']),
    one_of(['r1', 'r2']),
    one_of(['required', 'legacy', 'preferred', 'socket']),
)
pools = st.builds(
    Pool,
    st.frozensets(one_of([('name', 'x'), ('name', 'y'), ('dev_type', 'type-PF')])),
    one_of([None, 0, 1, 16, 24]),
    st.integers(1, 3),
    one_of([None, 'p1', 'p2']),
)
near_pools = st.builds(
    Pool,
    st.frozensets(one_of([('name', 'x'), ('name', 'y')]), min_size=1),
    st.integers(0, 3),
    st.integers(1, 3),
)
mappings = one_of([{'': ['p0']}, {'r1-0': ['p1']}, {'r1-0': ['p1'], 'r2-0': ['p2']}])
device_sets = st.none() | st.tuples(
    st.lists(pools, max_size=5).map(tuple),
    st.lists(device_requests, max_size=3).map(tuple),
    mappings,
)


@st.composite
def questions(draw):
    """Draw what a search is asked; the devices are made anew for each search."""
    cells, drawn = draw(host_cells()), draw(device_sets)
    sockets = {cell.id: cell.socket for cell in cells}

    def asked():
        return HostDevices(*drawn, sockets) if drawn else None

    return cells, draw(guests()), draw(limits), asked, draw(st.booleans())


@st.composite
def tight_questions(draw):
    """Draw one in which most pairs fit, and devices and networks decide."""
    count = draw(st.integers(2, 4))
    cells = tuple(
        HostCell(
            id=n,
            cpuset=frozenset(),
            pcpuset=frozenset(range(draw(st.integers(1, 4)))),
            memory=4096,
            siblings=tuple(frozenset({cpu}) for cpu in range(4)),
            network_metadata=draw(st.none() | networks),
            socket=draw(one_of([0, 1])),
        )
        for n in range(count)
    )
    dedicated = draw(st.lists(st.integers(1, 3), min_size=1, max_size=count))
    guest = Guest(
        tuple(
            GuestCell(n, frozenset(), frozenset(range(cpus)), 1, cpu_policy='dedicated')
            for n, cpus in enumerate(dedicated)
        )
    )
    free = draw(st.lists(near_pools, min_size=1, max_size=4).map(tuple))
    requests = draw(st.lists(device_requests, max_size=3).map(tuple))
    sockets = {cell.id: cell.socket for cell in cells}
    asked = draw(limits)
    return (
        cells, guest, asked, lambda: HostDevices(free, requests, None, sockets), False,
    )  # fmt: skip


def agree(cells, chosen, limits, devices):
    ids = frozenset(cell.id for cell in chosen)
    if devices and devices.wanted and not devices.supports(ids):
        return False
    asked = limits.networks if limits else None
    return not (asked and networks_elsewhere(cells, ids, asked))


def tried_everything(cells, guest, limits, devices, pack):
    """Return the fitted nodes of the first choice that will do; None: there is none."""
    tried = ordered(cells, guest, devices, pack)
    for chosen in itertools.permutations(tried, len(guest.cells)):
        reserve = [int(guest.isolates_emulator), *[0] * len(chosen)]
        found = [
            fit_pair(host, cell, limits, extra)
            for host, cell, extra in zip(chosen, guest.cells, reserve, strict=False)
        ]
        if any(isinstance(cell, CellRefusal) for cell in found):
            continue
        if agree(cells, chosen, limits, devices):
            return tuple(found)
    return None


def searched_as_nova(cells, guest, limits, devices, pack):
    """Search like nova, choice by choice; return if it fits, and the guest nodes."""
    tried = ordered(cells, guest, devices, pack)
    good, bad, found = set(), set(), list(guest.cells)

    def accepts(number, host, reserve):
        key = host.id, found[number].id
        if key not in good | bad:
            found[number], refused = examine(host, found[number], limits, reserve)
            (bad if refused else good).add(key)
        if key in good:
            found[number] = dataclasses.replace(found[number], id=host.id)
        return key in good

    for chosen in itertools.permutations(tried, len(found)):
        reserve = [int(guest.isolates_emulator), *[0] * len(chosen)]
        if all(accepts(n, host, reserve[n]) for n, host in enumerate(chosen)) and agree(
            cells, chosen, limits, devices
        ):
            return True, found
    return False, found


@given(question=questions() | tight_questions())
@examples(300)
def test_the_right_search_finds_what_trying_everything_finds(question):
    cells, guest, limits, devices, pack = question
    attempt = fit(cells, guest, limits, devices(), pack)
    expected = tried_everything(cells, guest, limits, devices(), pack)
    assert attempt.fits == (expected is not None)
    assert attempt.guest.cells == (guest.cells if expected is None else expected)
    if not attempt.fits:
        assert explain(cells, guest, limits, devices(), pack).text


@given(question=questions() | tight_questions())
@examples(300)
def test_the_search_of_nova_leaves_out_nothing_that_matters(question):
    cells, guest, limits, devices, pack = question
    attempt = fit_as_nova(cells, guest, limits, devices(), pack)
    expected = searched_as_nova(cells, guest, limits, devices(), pack)
    assert (attempt.fits, list(attempt.guest.cells)) == expected


@given(question=questions() | tight_questions())
@examples(150)
def test_found_fit_uses_free_cpus_and_pages(question):
    cells, guest, limits, devices, pack = question
    attempt = fit(cells, guest, limits, devices(), pack)
    if not attempt.fits:
        return
    hosts = {cell.id: cell for cell in cells}
    on = [hosts[cell.id] for cell in attempt.guest.cells]
    assert len({host.id for host in on}) == len(guest.cells)
    for host, cell in zip(on, attempt.guest.cells, strict=True):
        cpus = [cpu for _, cpu in cell.pinning or ()] + sorted(cell.reserved or ())
        assert len(set(cpus)) == len(cell.pcpuset) + len(cell.reserved or ())
        assert host.free_cpus.issuperset(cpus)
        assert [vcpu for vcpu, _ in cell.pinning or ()] == sorted(cell.pcpuset)
        if cell.pagesize:
            (taken,) = (p for p in host.mempages if p.size_kb == cell.pagesize)
            assert taken.free * taken.size_kb >= cell.memory * 1024


@given(question=questions() | tight_questions())
@examples(150)
def test_found_fit_can_be_booked(question):
    cells, guest, limits, devices, pack = question
    attempt = fit(cells, guest, limits, devices(), pack)
    if not attempt.fits:
        return
    used = with_usage(cells, attempt.guest, as_nova=False)
    before = sum(cell.memory_usage for cell in cells)
    after = sum(cell.memory_usage for cell in used)
    assert after - before == sum(cell.memory for cell in guest.cells)
    for cell, host in zip(used, cells, strict=True):
        assert host.pinned_cpus <= cell.pinned_cpus <= cell.pcpuset

# SPDX-License-Identifier: Apache-2.0
"""The console's own view of the cloud: read once, and then kept up to date."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from oslo_config import cfg

from novasched import app, errors
from novasched.cluster.periodic import PeriodicTasks
from novasched.inspection.questions.capacity import MOST_FLAVORS, Capacity, HostSlots
from novasched.inspection.questions.hosts import ListedHosts
from novasched.inspection.session import session
from novasched.inspection.session.copy_on_demand import FRESH_S
from novasched.inspection.session.session import Inspection
from novasched.inspection.session.what_if import WhatIf
from novasched.objects.request_spec import RequestSpec
from novasched.process import configuration
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.deadline import Check, Deadline

HOSTS_AGE_S = 5.0
"""How old what is shown of the hosts may be, in seconds."""
SLOTS_AGE_S = 15.0
"""How old the slots of flavors may be."""
WATCHED_S, RENEW_S = 300.0, 30.0
"""The copy of placement is kept fresh if somebody has asked so lately; how often it is
looked whether it is."""
MAX_AGE_S, RENEWED_S = 300.0, 240.0
"""How old it may be; an older one is renewed before somebody has to wait for it."""
RETRY_S = 2.0
"""How long a cloud that cannot be read is left alone."""
PLAN_WAIT_S = 10.0
WORK_S = 60.0
"""How long a dry run, or the work for a page, may take; then it is ended."""


class CachedCapacity(Capacity):
    """Counts the slots of each flavor once, until it is to forget them."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._kept: dict[Any, HostSlots] = {}

    def forget(self) -> None:
        """Count again from now on."""
        self._kept = {}

    def slots(self, flavor: str, request: RequestSpec) -> HostSlots:
        kept, wanted = self._kept, request.flavor
        sizes = wanted.vcpus, wanted.memory_mb, wanted.root_gb, wanted.ephemeral_gb
        key = flavor, sizes, wanted.swap, tuple(sorted(wanted.extra_specs.items()))
        if key not in kept:
            if len(kept) >= MOST_FLAVORS:
                kept.clear()
            kept[key] = super().slots(flavor, request)
        return kept[key]


@dataclass
class CachedCloud:
    """What is known of a cloud; ``problem`` says why it is not known what is used."""

    inspection: Inspection
    capacity: CachedCapacity
    read_at: float
    counted_at: float
    problem: str = ''
    _hosts: ListedHosts | None = field(default=None, repr=False)

    def begin(self, now: float) -> None:
        """Take in what has changed."""
        run, finder = self.inspection.run, self.inspection.finder
        view = run.reader.view
        view.refresh()
        cell0 = [] if view.cells.cell0 is None else [view.cells.cell0]
        finder.ask_again([*view.cells.all(), *cell0], view.unavailable_cells())
        if now - self.counted_at >= SLOTS_AGE_S:
            self.capacity.forget()
            self.counted_at = now
        self.read_at, self._hosts = now, None

    def hosts(self) -> ListedHosts:
        """Return the list of hosts. Raises nothing if placement is unavailable."""
        if (known := self._hosts) is not None:
            return known
        view, problem, providers = self.inspection.run.reader.view, '', None
        try:
            providers = self.inspection.copies().table
        except errors.StoreFailed as failed:
            problem = str(failed)
        known = ListedHosts.of(
            view.hosts(None),
            {cell.uuid: cell.name or cell.uuid for cell in view.cells.all()},
            self.inspection.conf.default_availability_zone,
            providers,
        )
        self.problem, self._hosts = problem, known
        return known


class CachedSession:
    """Opens an inspection when it is first needed, and keeps it.

    ``sources`` are what it reads. One thread at a time may use what current() returns.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        sources: app.Sources,
        clock: Clock = SYSTEM_CLOCK,
        work_s: float = WORK_S,
    ) -> None:
        self._conf = conf
        self._work_s = work_s
        self.sources = sources
        self._clock = clock
        self._lock = threading.Lock()
        self._planning, self._changing = threading.Lock(), threading.Lock()
        self._opened = contextlib.ExitStack()
        self._cloud: CachedCloud | None = None
        self._failed: tuple[float, errors.NovaschedError] | None = None

    def for_question(self) -> CachedCloud:
        """Return current() for one question, whose work ends at its deadline. One
        thread at a time may ask."""
        cloud = self.current()
        cloud.capacity.check = Deadline(self._work_s, self._clock.monotonic).check
        return cloud

    def current(self) -> CachedCloud:
        """Return the state of the cloud, hosts of the last HOSTS_AGE_S seconds.

        Raises errors.NovaschedError while it cannot be read.
        """
        with self._lock:
            now = self._clock.monotonic()
            if self._cloud is None:
                self._cloud = self._read(now)
            elif now - self._cloud.read_at >= HOSTS_AGE_S:
                self._cloud.begin(now)
            return self._cloud

    def _read(self, now: float) -> CachedCloud:
        if self._failed is not None and now < self._failed[0]:
            raise self._failed[1]
        try:
            return self._open()
        except errors.NovaschedError as problem:
            self._failed = self._clock.monotonic() + RETRY_S, problem
            raise

    def _open(self) -> CachedCloud:
        with contextlib.ExitStack() as stack:
            inspection = stack.enter_context(
                session.opened(self._conf, sources=self.sources)
            )
            view = inspection.run.reader.view
            copies = inspection.copies
            copies.max_age_s, copies.machine_max_age_s = MAX_AGE_S, FRESH_S
            inspection.placement.max_age_s = HOSTS_AGE_S
            capacity = CachedCapacity.of(inspection)
            now = self._clock.monotonic()
            cloud = CachedCloud(inspection, capacity, now, now)

            def renew_copy() -> None:
                if (
                    copies.newest
                    and self._clock.monotonic() - cloud.read_at < WATCHED_S
                ):
                    copies(max_age_s=RENEWED_S)

            tasks = PeriodicTasks.from_conf(
                self._conf, view, self._clock, [(RENEW_S, renew_copy)]
            )
            tasks.start()
            stack.callback(tasks.stop)
            self._opened = stack.pop_all()
        return cloud

    @contextlib.contextmanager
    def dry_run(
        self, changes: Sequence[str], seed: int | None = None
    ) -> Iterator[Inspection]:
        """Return an inspection for one dry run: of the cloud that is kept, or, with
        changes, of one that is read for it. What takes longer than ``work_s`` is
        ended by deadline.TookTooLong. Raises errors.OptionError for a change, and
        errors.Busy after PLAN_WAIT_S."""
        what_if = WhatIf.of(changes, is_trusted=False)
        turn = self._changing if what_if else self._planning
        if not turn.acquire(timeout=PLAN_WAIT_S):
            raise errors.Busy(1, 'Another plan takes long; try again in a moment')
        check = Deadline(self._work_s, self._clock.monotonic).check
        try:
            opening = (
                self._changed(what_if, seed, check)
                if what_if
                else self._again(seed, check)
            )
            with opening as inspection:
                yield inspection
        finally:
            turn.release()

    @contextlib.contextmanager
    def _again(self, seed: int | None, check: Check) -> Iterator[Inspection]:
        kept = self.current().inspection
        try:
            run = dataclasses.replace(kept.run.begin(seed), check=check)
            yield dataclasses.replace(kept, run=run)
        finally:
            kept.run.forget()

    @contextlib.contextmanager
    def _changed(
        self, what_if: WhatIf, seed: int | None, check: Check
    ) -> Iterator[Inspection]:
        conf = configuration.copied(self._conf, session.options())
        opening = session.opened(
            conf, seed=seed, what_if=what_if, sources=self.sources, check=check
        )
        with contextlib.ExitStack() as stack:
            with _changed_options(what_if):
                inspection = stack.enter_context(opening)
            yield inspection
        del inspection
        # Its parts refer to each other, and all hosts may be many megabytes.
        gc.collect()

    def close(self) -> None:
        """Close all connections."""
        self._opened.close()


@contextlib.contextmanager
def _changed_options(what_if: WhatIf) -> Iterator[None]:
    """Raise errors.OptionError where a scheduler cannot run with changed options."""
    try:
        yield
    except errors.OptionError:
        raise
    except errors.SetupError as problem:
        if not what_if.options:
            raise
        raise errors.OptionError(
            'what_if', str(problem), 'Correct the option, or leave it out'
        ) from problem

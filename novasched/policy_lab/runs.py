# SPDX-License-Identifier: Apache-2.0
"""Runs of several policies over several parts, on all cores.

A run has a directory: ``run.json`` once all was measured, and a file for each policy
and part once that is done. A run that was broken off goes on with what is missing;
what has changed since, an option, the history or novasched, is run again.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import itertools
import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryFile

from novasched import errors
from novasched.history.reading import Extent
from novasched.inspection.questions import replay
from novasched.policy_lab import intervals, sources
from novasched.policy_lab.figures import percent
from novasched.policy_lab.need import need
from novasched.policy_lab.policy import content_of
from novasched.policy_lab.results import (
    FleetGroup,
    NeededHosts,
    PartResult,
    PolicyText,
    RunPlan,
    RunResult,
)
from novasched.policy_lab.simulation import SEED, measure
from novasched.policy_lab.trace import Load, peak
from novasched.runtime.typed_json import of_json, to_json

RUN = 'run.json'
MEASURE, NEED = 'measure', 'need'


@dataclass(frozen=True)
class Progress:
    """A step that has been done, of all; ``was_there`` if it came from a file."""

    done: int
    of: int
    policy: str
    part: int
    what: str  # MEASURE or NEED
    was_there: bool
    took_s: float


@dataclass(frozen=True)
class _Task:
    """One policy over one part; ``path`` gets the result."""

    what: str
    history: str
    until: Extent
    policy: PolicyText
    part: int
    hosts: Sequence[FleetGroup]  # of a trace; none: as it has them
    fill_s: float | None
    path: str


Report = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class RunOrder:
    """Where policies are run, and how; see run()."""

    history: Path
    directory: Path  # of the results; it may have some already
    parts: int | None = None  # the first so many; None: all
    hosts: Sequence[FleetGroup] = ()  # other hosts than the history has
    fill_s: float | None = None
    measures: bool = True
    needs: bool = False
    processes: int | None = None
    trusted: Collection[str] = ()  # classes that are not ours and may be loaded
    report: Report = silent


def run(
    order: RunOrder, policies: Sequence[PolicyText], until: Extent | None = None
) -> RunResult:
    """Run policies as ordered.

    A recorded history is read to an extent, by default as far as it goes now. Raises
    errors.SetupError.
    """
    history, directory, hosts = order.history, order.directory, order.hosts
    parts = order.parts
    known, is_trace = sources.parts_of(history), sources.is_trace(history)
    chosen = list(known)[:parts]
    if parts is not None and parts > len(known):
        raise errors.OptionError(
            '--parts', f'there are {len(known)}', 'Give fewer, or import more'
        )
    if len({policy.name for policy in policies}) < len(policies) or not policies:
        raise errors.OptionError(
            '--policy', 'names are missing or equal', 'Give each policy its name'
        )
    if not is_trace and (hosts or order.needs):
        raise errors.OptionError(
            str(history), 'its hosts are the recorded ones', 'Import a trace for others'
        )
    until = sources.extent(history) if until is None else until
    load = sources.workload(history, chosen[0], tuple(hosts), until)
    if load.profile:
        foreign = replay.foreign_classes(load.profile)
        replay.check_trusted(str(history), foreign, order.trusted)
    for policy in policies:
        sources.policy_for(load, policy)  # raises what is wrong before anything runs
    digest = sources.digest(history, until)
    plan = RunPlan(str(history), digest, list(policies), chosen, order.fill_s, SEED)
    kinds = [MEASURE] * order.measures + [NEED] * order.needs
    try:
        directory.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=directory).close()
    except OSError as problem:
        raise errors.OptionError(
            str(directory), str(problem), 'Name a directory that can be written'
        ) from problem
    tasks = [
        _task(what, plan, until, policy, part, hosts, directory)
        for what in kinds
        for policy in policies
        for part in chosen
    ]
    found = _all_done(tasks, order.processes, order.report)
    measured = [each for each in found if isinstance(each, PartResult)]
    loads = [offered_peak(history, part, until) for part in chosen]
    shown = list(load.trace.hosts)
    vcpus = sum(group.count * group.vcpus for group in shown) * len(loads)
    ram_mb = sum(group.count * group.ram_mb for group in shown) * len(loads)
    result = RunResult(
        plan=plan,
        title=load.trace.title,
        hosts=shown,
        offered_vcpus_percent=percent(sum(each.vcpus for each in loads), vcpus),
        offered_ram_percent=percent(sum(each.ram_mb for each in loads), ram_mb),
        parts=measured,
        rows=intervals.rows(measured) if measured else [],
        overloaded=intervals.overloaded(measured) if measured else [],
        unmodelled=load.trace.unmodelled,
        needed=[each for each in found if isinstance(each, NeededHosts)],
    )
    if order.measures:
        _write(directory / RUN, result.as_text())
    return result


def read(directory: Path) -> RunResult:
    """Read a run that is done. Raises errors.OptionError."""
    try:
        return RunResult.of_text((directory / RUN).read_text(encoding='utf-8'))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as problem:
        raise errors.OptionError(
            str(directory), f'no run that is done: {problem}', 'Run it again'
        ) from problem


def _task(
    what: str,
    plan: RunPlan,
    until: Extent,
    policy: PolicyText,
    part: int,
    hosts: Sequence[FleetGroup],
    directory: Path,
) -> _Task:
    """Return a task; the name of its file has a hash of all that decides it."""
    inputs = [
        importlib.metadata.version('novasched'),
        what,
        plan.history_hash,
        content_of(policy),
        part,
        to_json(list(hosts)),
        plan.fill_s if what == MEASURE else None,
        plan.seed,
    ]
    digest = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:12]
    path = directory / f'{what}-{policy.name}-{part}-{digest}.json'
    return _Task(what, plan.history, until, policy, part, hosts, plan.fill_s, str(path))


def _all_done(
    tasks: Sequence[_Task], processes: int | None, report: Report
) -> list[PartResult | NeededHosts]:
    """Return the results of all tasks in their order; do those that are not done."""
    known = [(task, _known(task)) for task in tasks]
    numbers = itertools.count(1)

    def tell(task: _Task, result: PartResult | NeededHosts, was_there: bool) -> None:
        step = next(numbers), len(tasks), task.policy.name, task.part, task.what
        report(Progress(*step, was_there, result.took_s))

    for task, result in known:
        if result is not None:
            tell(task, result, was_there=True)
    missing = [task for task, result in known if result is None]
    for task in _run_tasks(missing, processes or os.cpu_count() or 1):
        tell(task, _result(task), was_there=False)
    return [_result(task) for task in tasks]


def _run_tasks(tasks: Sequence[_Task], processes: int) -> Iterator[_Task]:
    """Run tasks, the long ones first, and yield each when it is done."""
    ordered = sorted(tasks, key=lambda task: task.what != NEED)
    if processes < 2 or len(ordered) < 2:
        for task in ordered:
            _do(task)
            yield task
        return
    count = min(processes, len(ordered))
    with ProcessPoolExecutor(count, mp_context=get_context('spawn')) as pool:
        running: dict[Future[None], _Task] = {
            pool.submit(_do, task): task for task in ordered
        }
        try:
            while running:
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    future.result()
                    yield running.pop(future)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _do(task: _Task) -> None:
    """Do a task in this process, and write its result."""
    load = sources.workload(
        Path(task.history), task.part, tuple(task.hosts), task.until
    )
    policy = sources.policy_for(load, task.policy)
    if task.what == NEED:
        result: PartResult | NeededHosts = need(load, policy)
    else:
        result = measure(load, policy, task.fill_s)
    _write(Path(task.path), json.dumps(to_json(result)))


def offered_peak(history: Path, part: int, until: Extent | None = None) -> Load:
    """Return the largest load, with what runs at the start."""
    load = sources.workload(history, part, until=until)
    offered, begins = peak(load.trace.flavors, load.batches), load.cloud.load()
    return Load(
        offered.vcpus + int(begins.used_vcpus.sum()),
        offered.ram_mb + int(begins.used_ram_mb.sum()),
    )


def _known(task: _Task) -> PartResult | NeededHosts | None:
    try:
        return _result(task)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None  # it is not done, or its file is torn


def _result(task: _Task) -> PartResult | NeededHosts:
    value = json.loads(Path(task.path).read_text(encoding='utf-8'))
    if task.what == NEED:
        return of_json(NeededHosts, value)
    return of_json(PartResult, value)


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    partial = path.with_suffix(f'.{os.getpid()}.partial')
    partial.write_text(f'{text}\n', encoding='utf-8')
    partial.replace(path)

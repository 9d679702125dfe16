# SPDX-License-Identifier: Apache-2.0
"""Adapter of drivers written for nova, of any release.

A driver is given the parameters that its select_destinations takes; its answer
becomes lists of Selection.
"""

from __future__ import annotations

import abc
import contextlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from novasched import errors
from novasched.compat.host_manager import HostManager
from novasched.drivers import Driver, DriverContext, ScheduleRequest, ScheduleResult
from novasched.drivers.host_candidates import KnownRoots, by_provider
from novasched.drivers.selections import SelectionMaker
from novasched.objects import legacy
from novasched.objects.context import RequestContext
from novasched.objects.selection import Selection
from novasched.ports import Candidate
from novasched.scheduler.hosts import HostState

MODERN = (
    'spec_obj',
    'instance_uuids',
    'alloc_reqs_by_rp_uuid',
    'provider_summaries',
    'allocation_request_version',
    'return_alternates',
)
DECLARED_BY_16 = ('spec_obj', 'instance_uuids', 'provider_summaries')
DICTS = ('request_spec', 'filter_properties')
ROWS = (MODERN, MODERN[:5], MODERN[:4], DECLARED_BY_16, DICTS, MODERN[:1])
"""What follows the context in select_destinations: 17 to 23, 16 (whose base class
declared less than it was given), 12 and older, 13 to 15."""
PASSED_ON = (
    errors.NoValidHost,
    errors.ExtensionFailed,
    errors.MetricNotFound,
    errors.StoreFailed,
)
"""What a driver may raise for reasons that are not its own."""


class Scheduler(abc.ABC):
    """Base class of drivers written for nova. Nova: scheduler/driver.py.

    ``host_manager`` and ``servicegroup_api`` are there before ``__init__`` runs.
    """

    USES_ALLOCATION_CANDIDATES = True
    host_manager: HostManager
    servicegroup_api: ServiceGroup

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: B027
        """Do nothing; drivers of all releases call it in their own ways."""

    def run_periodic_tasks(self, context: RequestContext) -> None:  # noqa: B027
        """Do what is to be done at the start and every periodic_task_interval."""

    def hosts_up(self, context: RequestContext, topic: str) -> list[str]:
        """Return the names of the hosts that have an enabled service that is up."""
        return self.host_manager.hosts_up(topic)

    @abc.abstractmethod
    def select_destinations(self, *args: Any, **kwargs: Any) -> Any:
        """Choose the hosts: what a driver is there for."""


class ServiceGroup:
    """Tells drivers which services are up."""

    def __init__(self, host_manager: HostManager) -> None:
        self._host_manager = host_manager

    def service_is_up(self, service: Mapping[str, Any]) -> bool:
        """Say whether a compute service, as hosts show it, was heard from in time."""
        hosts = self._host_manager.get_all_host_states(None)
        return any(each.service_up for each in hosts if each.host == service['host'])


class LegacyDriver(Driver):
    """Lets a driver written for nova choose; claims what it chose.

    Raises errors.OptionError when it cannot be one.
    """

    def __init__(self, cls: type, parts: DriverContext) -> None:
        super().__init__(parts)
        self._name = cls.__name__
        self._host_manager = HostManager(parts)
        self._driver = _made(cls, self._host_manager)
        self._parameters = parameters_of(self._driver)
        self._roots = KnownRoots()
        self.USES_ALLOCATION_CANDIDATES = _uses_candidates(cls, self._parameters)

    def select_destinations(self, work: ScheduleRequest) -> ScheduleResult:
        nodes = self.parts.view.node_uuids()
        offered = by_provider(work.candidates, nodes, self._roots.uuids())
        values = _values(work, offered)
        lap = self.parts.watch.of(work.context.request_id)
        with (
            self._named(),
            self._host_manager.serving(work.request, lap),
            lap('Driver', self._name, 0),
        ):
            given = [values[name]() for name in self._parameters]
            found = self._driver.select_destinations(work.context, *given)
            reading = _Reading(self.parts, work, offered)
            choices = [reading.choices(each) for each in found or ()]
        if len(choices) < work.required or not all(choices):
            raise errors.NoValidHost(errors.NOT_ENOUGH_HOSTS)
        return _placed(work, choices[: work.required])

    def run_periodic_tasks(self, context: RequestContext) -> None:
        run = getattr(self._driver, 'run_periodic_tasks', None)
        if run is not None:
            with self._named():
                run(context)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except PASSED_ON:
            raise
        except Exception as problem:  # a plugin may raise anything
            raise errors.ExtensionFailed(self._name, problem) from problem


def _made(cls: Any, host_manager: HostManager) -> Any:
    """Make a driver; it has what its base class gave it in nova."""
    try:
        driver = cls.__new__(cls)
        driver.host_manager = host_manager
        driver.servicegroup_api = ServiceGroup(host_manager)
        driver.__init__()
    except Exception as problem:  # a plugin may raise anything
        raise _unusable(cls, repr(problem)) from problem
    return driver


def _unusable(cls: type, why: str) -> errors.OptionError:
    remedy = 'Mend the class, or set it to filter_scheduler'
    return errors.OptionError('[scheduler] driver', f'{cls.__name__}: {why}', remedy)


def parameters_of(driver: Any) -> tuple[str, ...]:
    """Return what select_destinations is to be given after the context.

    Raises errors.OptionError when it takes what no release of nova gave.
    """
    method = getattr(driver, 'select_destinations', None)
    if not callable(method):
        raise _unusable(type(driver), 'it has no method select_destinations')
    taken = list(inspect.signature(method).parameters.values())
    named = [p for p in taken if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in named) - 1
    most = len(named) - 1
    if any(p.kind is p.VAR_POSITIONAL for p in taken):
        most = len(MODERN)
    first = named[1].name if len(named) > 1 else ''
    for row in ROWS:
        if row is DICTS and first == 'spec_obj':
            continue
        if required <= len(row) <= most:
            return row
    shown = ', '.join(p.name for p in taken)
    why = f'its select_destinations takes ({shown}), which no release of nova gave it'
    raise _unusable(type(driver), why)


def _uses_candidates(cls: type, parameters: Sequence[str]) -> bool:
    """Say whether a driver wants allocation candidates: if it takes them, unless
    it says otherwise."""
    for each in cls.__mro__:
        if each is not Scheduler and 'USES_ALLOCATION_CANDIDATES' in vars(each):
            return bool(vars(each)['USES_ALLOCATION_CANDIDATES'])
    return 'alloc_reqs_by_rp_uuid' in parameters


def _values(
    work: ScheduleRequest, offered: Mapping[str, list[Candidate]] | None
) -> dict[str, Callable[[], Any]]:
    """Return what makes each parameter; without candidates they are None."""
    answer, request = work.candidates, work.request
    return {
        'spec_obj': lambda: request,
        'instance_uuids': lambda: work.instance_uuids,
        'alloc_reqs_by_rp_uuid': lambda: offered,
        'provider_summaries': lambda: answer.summaries if answer else None,
        'allocation_request_version': lambda: answer.version if answer else None,
        'return_alternates': lambda: work.return_alternates,
        'request_spec': lambda: {
            **legacy.request_spec_dict(request),
            'num_instances': work.required,
            'instance_uuids': work.instance_uuids,
        },
        'filter_properties': lambda: legacy.filter_properties_dict(request),
    }


class _Choice(NamedTuple):
    """A host that a driver chose, and what is claimed there; None: nothing."""

    selection: Selection
    host: str
    candidate: Candidate | None


class _Reading:
    """Makes choices of whatever a driver answers for an instance."""

    def __init__(
        self,
        parts: DriverContext,
        work: ScheduleRequest,
        offered: Mapping[str, list[Candidate]] | None,
    ) -> None:
        version = work.candidates.version if work.candidates else None
        self._maker = SelectionMaker(version, parts.default_availability_zone)
        self._view = parts.view
        self._request = work.request
        self._offered = offered or {}
        self._known: list[HostState] | None = None

    def choices(self, answer: Any) -> list[_Choice]:
        """Return the selected host and its alternates, if there are any."""
        several = answer if isinstance(answer, list | tuple) else [answer]
        selections = [self._selection(each) for each in several]
        return [
            _Choice(each, each.service_host, _candidate(each)) for each in selections
        ]

    def _selection(self, answer: Any) -> Selection:
        if isinstance(answer, Selection):
            return answer
        if isinstance(answer, Mapping):
            answer = self._found(answer)
        host = cast(HostState, answer)
        return self._maker.selection(host, next(iter(self._left(host)), None))

    def _left(self, host: HostState) -> Sequence[Candidate]:
        return host.allocation_candidates or self._offered.get(host.uuid, [])

    def _found(self, answer: Mapping[str, Any]) -> HostState:
        """Look up the host that a dict names, and give it the limits in it."""
        if self._known is None:
            hosts = self._view.hosts(None, self._request.target_cell_uuid)
            self._known = list(hosts.states())
        name, node = answer['host'], answer.get('nodename')
        for host in self._known:
            if host.host == name and node in (None, host.nodename):
                host.limits = dict(answer.get('limits') or {})
                return host
        raise LookupError(f'it selected {name}, {node}, which is no known host')


def _candidate(selection: Selection) -> Candidate | None:
    """Return the candidate of a selection. Raises ValueError where there is nonsense,
    and errors.UnsetField where nothing is said."""
    text = selection.allocation_request
    candidate: Candidate | None = json.loads(text or 'null')
    if not candidate:
        return None
    if not isinstance(candidate, dict) or not candidate.get('allocations'):
        host = selection.service_host
        raise ValueError(f'the allocation_request of {host} is no candidate: {text}')
    return candidate


def _placed(
    work: ScheduleRequest, choices: Sequence[Sequence[_Choice]]
) -> ScheduleResult:
    """Claim a host for each instance: the first that placement grants.

    Where claims are made, a host that has no candidate is none.
    """
    request, kept = work.request, []
    alternates = None if work.return_alternates else 1
    for index, chosen in enumerate(choices):
        if work.instance_uuids:
            request = request.for_instance(work.instance_uuids[index])
        refused = 0
        for one in chosen:
            if work.claims is None:
                break
            if one.candidate and work.claims.make(request, one.candidate):
                break
            refused += 1
        else:
            raise errors.NoValidHost(errors.NOT_ENOUGH_HOSTS)
        kept.append([each.selection for each in chosen[refused:][:alternates]])
        request = request.with_group_on(chosen[refused].host)
    return ScheduleResult(kept, request)

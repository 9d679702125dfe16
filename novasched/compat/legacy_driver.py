# SPDX-License-Identifier: Apache-2.0
"""Adapter of drivers written for nova, of any release.

A driver is given the parameters that its select_destinations takes; its answer
becomes lists of Selection.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from novasched import errors
from novasched.claiming.claims import Claims
from novasched.claiming.request import Again, Retry
from novasched.compat.host_manager import HostManager
from novasched.drivers import (
    ClaimedRequest,
    Driver,
    DriverContext,
    ScheduleRequest,
    ScheduleResult,
)
from novasched.drivers.selections import SelectionMaker
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.parsing import parse_json
from novasched.ports import ALL_HOSTS, Candidate, ClaimRequest
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
    servicegroup_api: HostManager

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


class LegacyDriver(Driver):
    """Lets a driver written for nova choose; claims what it chose.

    Raises errors.OptionError when it cannot be one.
    """

    def __init__(self, cls: type, context: DriverContext) -> None:
        super().__init__(context)
        self._name = cls.__name__
        self._host_manager = HostManager(context)
        self._driver = _made(cls, self._host_manager)
        self._parameters = parameters_of(self._driver)
        self.USES_ALLOCATION_CANDIDATES = _uses_candidates(cls, self._parameters)

    def select_destinations(self, request: ScheduleRequest) -> ScheduleResult:
        nodes = self.context.view.node_uuids()
        offered = request.candidates.by_provider(nodes, self.context.roots.uuids())
        timer = self.context.watch.of(request.context.request_id)
        with (
            self._named(),
            self._host_manager.serving(request, timer),
            timer('Driver', self._name, 0),
        ):
            given = _arguments(self._parameters, request, offered)
            answers = self._driver.select_destinations(request.context, *given)
            reading = _Reading(self.context, request, offered or {})
            choices = [reading.choices(answer) for answer in answers or ()]
        if len(choices) < request.required or not all(choices):
            raise errors.NoValidHost(errors.NOT_ENOUGH_HOSTS)
        return _placed(request, choices[: request.required])

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
        driver.host_manager = driver.servicegroup_api = host_manager
        driver.__init__()
    except Exception as problem:  # a plugin may raise anything
        raise _unusable(cls, repr(problem)) from problem
    return driver


def _unusable(cls: type, why: str) -> errors.OptionError:
    remedy = 'Mend the class, or set it to filter_scheduler'
    return errors.OptionError('[scheduler] driver', f'{cls.__name__}: {why}', remedy)


def parameters_of(driver: Any) -> tuple[str, ...]:
    """Return the arguments of select_destinations after the context.

    Raises errors.OptionError when it takes what no release of nova gave.
    """
    method = getattr(driver, 'select_destinations', None)
    if not callable(method):
        raise _unusable(type(driver), 'it has no method select_destinations')
    signature = inspect.signature(method)
    taken = list(signature.parameters)
    for row in ROWS:
        if row is DICTS and taken[1:2] == ['spec_obj']:
            continue
        with contextlib.suppress(TypeError):
            signature.bind('context', *row)
            return row
    shown = ', '.join(taken)
    why = f'its select_destinations takes ({shown}), which no release of nova gave it'
    raise _unusable(type(driver), why)


def _uses_candidates(cls: type, parameters: Sequence[str]) -> bool:
    """Return whether a driver wants allocation candidates: if it takes them, unless
    it says otherwise."""
    option = 'USES_ALLOCATION_CANDIDATES'
    others = [vars(each) for each in cls.__mro__ if each is not Scheduler]
    said = [each[option] for each in others if option in each]
    return bool(said[0]) if said else 'alloc_reqs_by_rp_uuid' in parameters


def _arguments(
    parameters: Sequence[str],
    request: ScheduleRequest,
    offered: Mapping[str, list[Candidate]] | None,
) -> list[Any]:
    """Return the arguments after the context; None for candidates without any."""
    spec = request.spec
    uuids = request.instance_uuids if request.names_instances else None
    answer = None if request.candidates is ALL_HOSTS else request.candidates
    if parameters is DICTS:
        asked = {'num_instances': request.required, 'instance_uuids': uuids}
        request_spec = spec.to_legacy_request_spec_dict() | asked
        return [request_spec, spec.to_legacy_filter_properties_dict()]
    values = {
        'spec_obj': spec,
        'instance_uuids': uuids,
        'alloc_reqs_by_rp_uuid': offered,
        'provider_summaries': answer.summaries if answer else None,
        'allocation_request_version': answer.version if answer else None,
        'return_alternates': request.return_alternates,
    }
    return [values[name] for name in parameters]


class _Choice(NamedTuple):
    """A host that a driver chose, and the candidate to claim there, if any."""

    selection: Selection
    host: str
    candidate: Candidate | None

    @property
    def node_uuid(self) -> str:
        """The compute node; empty: the driver did not say."""
        said = 'compute_node_uuid' in self.selection
        return self.selection.compute_node_uuid if said else ''


@dataclass
class _Reading:
    """Makes choices of whatever a driver answers for an instance."""

    context: DriverContext
    request: ScheduleRequest
    offered: Mapping[str, list[Candidate]]

    @functools.cached_property
    def _known(self) -> list[HostState]:
        cell = self.request.spec.target_cell_uuid
        return list(self.context.view.hosts(None, cell).states())

    def choices(self, answer: Any) -> list[_Choice]:
        """Return the selected host and its alternates, if there are any."""
        several = answer if isinstance(answer, list | tuple) else [answer]
        selections = map(self._selection, several)
        return [_Choice(s, s.service_host, _candidate(s)) for s in selections]

    def _selection(self, answer: Any) -> Selection:
        if isinstance(answer, Selection):
            return answer
        if isinstance(answer, Mapping):
            answer = self._found(answer)
        host: HostState = answer
        left = host.allocation_candidates or self.offered.get(host.uuid, [])
        version = self.request.candidates.version or None
        maker = SelectionMaker(version, self.context.default_availability_zone)
        return maker.selection(host, next(iter(left), None))

    def _found(self, answer: Mapping[str, Any]) -> HostState:
        """Look up the host that a dict names, and give it the limits in it."""
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
    candidate: Candidate | None = parse_json(text or 'null')
    if not candidate:
        return None
    if not isinstance(candidate, dict) or not candidate.get('allocations'):
        host = selection.service_host
        raise ValueError(f'the allocation_request of {host} is no candidate: {text}')
    return candidate


def _placed(
    request: ScheduleRequest, choices: Sequence[Sequence[_Choice]]
) -> ScheduleResult:
    """Claim a host for each instance: the first that placement grants."""
    spec, kept = request.spec, []
    alternates = None if request.return_alternates else 1
    for index, chosen in enumerate(choices):
        if request.instance_uuids:
            spec = spec.for_instance(request.instance_uuids[index])
        if isinstance(request, ClaimedRequest):
            chosen = _granted(request.claims, spec, chosen)
        kept.append([choice.selection for choice in chosen[:alternates]])
        spec = spec.with_group_on(chosen[0].host)
    return ScheduleResult(kept, spec)


def _granted(
    claims: Claims, spec: RequestSpec, chosen: Sequence[_Choice]
) -> Sequence[_Choice]:
    """Return the choices from that on which placement grants; a host that has no
    candidate is none."""
    for place, choice in enumerate(chosen):
        if not choice.candidate:
            continue
        retry = claims.make(spec, choice.candidate, choice.node_uuid)
        if retry is None:
            others = chosen[place + 1 :]
            picks = [
                ClaimRequest('', o.candidate, o.node_uuid)
                for o in others
                if o.candidate
            ]
            are_offered = claims.verification.alternates_offered(picks)
            if isinstance(are_offered, Retry):
                break
            offered = iter(are_offered)
            left = (each for each in others if not each.candidate or next(offered))
            return [choice, *left]
        if retry.again is not Again.CANDIDATE:
            break
    raise errors.NoValidHost(errors.NOT_ENOUGH_HOSTS)

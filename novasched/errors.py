# SPDX-License-Identifier: Apache-2.0
"""Every exception that novasched raises, as a tree.

::

    NovaschedError
      RequestError                    the request cannot be served
        NoValidHost                   no host, or not enough of them
        InvalidRequest                a field is missing, mistyped or nonsense
          UnsetField                  a field that was needed was never set
          UnsupportedObject           an object of unknown name or namespace
          InvalidRequestGroup         a requested group is empty or without a name
          InvalidDemand               flavor or image ask for what cannot be
            RequestGroupSuffixConflict, FlavorImageConflict, and one for each
            kind of demand; see the classes
        StoreFailed                   a database could not be asked
          StoreInterrupted              it broke off, and may answer if asked again
          StoreUnreachable              there is no connection to it
        NetworkFailed                 the network service did not answer a question
          PortNotFound                  a requested port does not exist
          NetworkUnauthorized           our token is not accepted
          NetworkForbidden              the user may not read it
        ExtensionFailed               a filter, weigher or driver raised
        MetricNotFound                a host lacks a metric that is required
        Busy                          too many ask at once
        AllocationUpdateFailed        the consumer changed under the claim
          AlreadyClaimed                it holds something, and this is no move
        AllocationDeleteFailed        placement refused to remove an allocation
      CopyError                     candidates cannot be computed: placement is asked
        NoCopy                      the copy is not there, too old or broken
        InvalidCandidateQuery         placement answers 400 to such a query
        InconsistentProviders         rows of its database do not fit together
      DecisionNotFound                no record of a decision has such an id
      AmbiguousDecision               several ids begin as it does
      SetupError                      the service cannot run as it is configured
        OptionError                   one option is missing, wrong or unreachable
          RequestNotKept                the request of a server is gone or unreadable
          UnknownHost                   no such host, or its cell does not answer
        FilterNotFound                enabled_filters names an unknown filter
        ClassNotFound                 a dotted path names no usable class
        TooOldComputeService          a compute service is older than supported
        ServiceTooOld                 the deployment is newer than this service

``rpc/faults.py`` says how each of them looks on the wire.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return a question that offers the known name most alike, or nothing."""
    meant = closest(name, known)
    return f' Did you mean {meant}?' if meant else ''


def closest(name: str, known: Collection[str]) -> str | None:
    """Return the known name that is most alike, None if none is like it."""
    return next(iter(difflib.get_close_matches(name, known, 1, 0.8)), None)


class NovaschedError(Exception):
    """Base of all errors of novasched."""


class RequestError(NovaschedError):
    """The request cannot be served; the caller gets this error.

    ``unavailable`` names the service whose missing answer ended the request, if any.
    """

    unavailable = ''


NOT_ENOUGH_HOSTS = 'There are not enough hosts available.'
"""Nova's reason of NoValidHost where not every instance got a host."""


class NoValidHost(RequestError):
    """No host can take the request. Nova: exception.NoValidHost."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f'No valid host was found. {self.reason}'


@dataclass(eq=False, repr=False)
class InvalidRequest(RequestError):
    """A field of the request is missing, of the wrong type or nonsense."""

    reason: str

    def __str__(self) -> str:
        return f'The request is invalid: {self.reason}'


class UnsetField(InvalidRequest):
    """A field was read that the sender never set."""

    def __init__(self, field: str) -> None:
        super().__init__(f'{field} is not set')
        self.field = field

    def __str__(self) -> str:
        return (
            'Object action obj_load_attr failed because: '
            f'attribute {self.field} not lazy-loadable'
        )


class UnsupportedObject(InvalidRequest):
    """An object arrived whose name or namespace is unknown."""

    def __init__(self, name: str) -> None:
        super().__init__(f'object type {name} is not supported')
        self.name = name

    def __str__(self) -> str:
        return f'Unsupported object type {self.name}'


class InvalidRequestGroup(InvalidRequest):
    """A group of requested resources is empty or without a name."""

    def __str__(self) -> str:
        return self.reason


class InvalidDemand(InvalidRequest):
    """The flavor or the image asks for nonsense, or they ask for two things.

    ``reason`` says it all; ``details`` are parts of it, by nova's names.
    """

    def __init__(self, reason: str, /, **details: str | None) -> None:
        super().__init__(reason)
        self.details = details

    def __str__(self) -> str:
        return self.reason


class RequestGroupSuffixConflict(InvalidDemand):
    """Two groups of requested resources have the same suffix."""


class FlavorImageConflict(InvalidDemand):
    """The flavor and the image ask for different things."""


class ImageCPUPinningForbidden(InvalidDemand):
    """The image asks for more dedicated CPUs than the flavor allows."""


class ImageCPUThreadPolicyForbidden(InvalidDemand):
    """The image asks for another use of CPU threads than the flavor."""


class ImagePCINUMAPolicyForbidden(InvalidDemand):
    """The image asks for another NUMA affinity of PCI devices than the flavor."""


class InvalidCPUAllocationPolicy(InvalidDemand):
    """No such CPU policy."""


class InvalidCPUThreadAllocationPolicy(InvalidDemand):
    """No such CPU thread policy."""


class InvalidEmulatorThreadsPolicy(InvalidDemand):
    """No such policy for emulator threads."""


class InvalidMixedInstanceDedicatedMask(InvalidDemand):
    """The mask of dedicated CPUs leaves none shared, or names none."""


class RealtimeMaskNotFoundOrInvalid(InvalidDemand):
    """The mask of realtime CPUs is missing or does not fit the flavor."""


class InvalidMachineType(InvalidDemand):
    """The machine type of the image does not go with memory encryption."""


class StatelessFirmwareRequired(InvalidDemand):
    """The model of memory encryption needs firmware without a state."""


class InvalidVideoMode(InvalidDemand):
    """The model of memory encryption needs a guest without a video device."""


class InvalidPCINUMAAffinity(InvalidDemand):
    """No such NUMA affinity of PCI devices."""


CONNECTIONS = 'See novasched-status upgrade check, which tries each connection'
"""Remedy of a StoreFailed."""


@dataclass(eq=False, repr=False)
class StoreFailed(RequestError):
    """A database could not be asked; ``store`` names it without its password."""

    store: str
    problem: str
    unavailable: str = ''

    def __str__(self) -> str:
        return f'{self.store} could not be asked: {self.problem}'


@dataclass(eq=False, repr=False)
class ConsoleFailed(NovaschedError):
    """The console at ``where`` gave no answer."""

    where: str
    problem: str

    def __str__(self) -> str:
        return f'The console at {self.where} could not be asked: {self.problem}'


class StoreInterrupted(StoreFailed):
    """The connection was lost, or the transaction aborted in favour of another one."""


class StoreUnreachable(StoreFailed):
    """There is no connection to it; ``problem`` is a sentence that names it."""

    def __str__(self) -> str:
        return self.problem


class NetworkFailed(RequestError):
    """The network service could not be asked, or does not answer."""

    def __init__(self, text: str, unavailable: str = '') -> None:
        super().__init__(text)
        self.unavailable = unavailable


@dataclass(eq=False, repr=False)
class PortNotFound(NetworkFailed):
    """A requested port does not exist, or not for the user."""

    port_id: str

    def __str__(self) -> str:
        return f'Port id {self.port_id} could not be found.'


class NetworkUnauthorized(NetworkFailed):
    """There is no token to ask with, or it is not accepted."""


class NetworkForbidden(NetworkFailed):
    """The user may not know what was asked."""


@dataclass(eq=False, repr=False)
class ExtensionFailed(RequestError):
    """A filter, weigher or driver raised; ``extension`` names it."""

    extension: str
    problem: Exception

    def __str__(self) -> str:
        return f'{self.extension} failed: {type(self.problem).__name__}: {self.problem}'


@dataclass(eq=False, repr=False)
class MetricNotFound(RequestError):
    """A host does not report a metric that is required to weigh it."""

    metric: str
    host: str
    node: str

    def __str__(self) -> str:
        return (
            f'Metric {self.metric} could not be found on the compute host node '
            f'{self.host}.{self.node}.'
        )


@dataclass(eq=False, repr=False)
class Busy(RequestError):
    """Too many questions at a time; ``words`` say which, if not those on decisions."""

    at_once: int
    words: str = ''

    def __str__(self) -> str:
        words = f'{self.at_once} questions about decisions are being answered already'
        return self.words or words


@dataclass(eq=False, repr=False)
class _OfConsumer(NovaschedError):
    consumer_uuid: str
    error: str
    done_to: ClassVar = ''

    def __str__(self) -> str:
        return f'Failed to {self.done_to} {self.consumer_uuid}. Error: {self.error}'


class AllocationUpdateFailed(_OfConsumer, RequestError):
    """The consumer changed during the claim, or the outcome of the claim is unknown."""

    done_to = 'update allocations for consumer'


class AlreadyClaimed(AllocationUpdateFailed):
    """The consumer has allocations of a second delivery, or of an earlier claim."""


class AllocationDeleteFailed(_OfConsumer, RequestError):
    """Placement refused to remove the allocations of a consumer."""

    done_to = 'delete allocations for consumer'


class CopyError(NovaschedError):
    """Candidates cannot be computed from a copy of placement: it must be asked.

    ``reason`` is what metrics call it; ``is_of_query``: for one query alone.
    """

    reason = 'not_read'
    is_of_query = False


class NoCopy(CopyError):
    """There is no copy, or it is too old, or it cannot be brought up to date."""

    reason = 'unusable'


class InvalidCandidateQuery(CopyError):
    """A query that placement answers with 400, or that is left to placement."""

    reason = 'query'
    is_of_query = True


class InconsistentProviders(CopyError):
    """Rows of placement's database do not fit together."""


@dataclass(eq=False, repr=False)
class DecisionNotFound(NovaschedError):
    """No such decision; ``unanswered`` are the schedulers that may have a record."""

    decision: str
    unanswered: Sequence[str] = ()

    def __str__(self) -> str:
        missing = ', '.join(self.unanswered)
        silent = f' {missing} did not answer.' if missing else ''
        return f'No record is kept of a decision {self.decision}.{silent}'


@dataclass(eq=False, repr=False)
class AmbiguousDecision(NovaschedError):
    """The ids of several decisions begin as was typed."""

    prefix: str
    found: Sequence[str]

    def __str__(self) -> str:
        shown = ', '.join(self.found[:5])
        return f'Several decisions begin with {self.prefix}: {shown}. Type more of it.'


class SetupError(NovaschedError):
    """The service cannot run with the configuration that it was given."""


@dataclass(eq=False, repr=False)
class OptionError(SetupError):
    """One option is missing, wrong, or names something unreachable.

    ``remedy`` says what to do, in one sentence; the text adds the periods.
    """

    option: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        problem, remedy = self.problem.rstrip('. \n'), self.remedy.rstrip('. ')
        end = '' if problem.endswith('?') else '.'
        return f'{self.option}: {problem}{end} {remedy}.'


class UnknownHost(OptionError):
    """No host of this name has a compute node and a service, in the cells that answer;
    ``cells_left_out`` are the others."""

    def __init__(
        self, host: str, known: Collection[str], cells_left_out: Sequence[str] = ()
    ) -> None:
        meant, cells = closest(host, known), ', '.join(cells_left_out)
        unknown = f'; the hosts of {cells} are not known' if cells else ''
        super().__init__(
            'HOST',
            f'there is no host {host} with a compute node and a service{unknown}',
            f'Did you mean {meant}?' if meant else 'See openstack hypervisor list',
        )
        self.cells_left_out = cells_left_out


class RequestNotKept(OptionError):
    """The API database has no request of a server, or none that can be read."""


@dataclass(eq=False, repr=False)
class FilterNotFound(SetupError):
    """``enabled_filters`` names filters that are not ``available``."""

    names: list[str]
    available: Collection[str] = ()

    def __str__(self) -> str:
        meant = ''.join(did_you_mean(name, self.available) for name in self.names)
        return (
            f'Scheduler Host Filter {", ".join(self.names)} could not be found.{meant}'
        )


@dataclass(eq=False, repr=False)
class ClassNotFound(SetupError):
    """A dotted path does not lead to a class; the names of some are ``installed``."""

    path: str
    problem: str
    installed: Collection[str] = ()

    def __str__(self) -> str:
        meant = did_you_mean(self.path.rpartition('.')[2], self.installed)
        problem = f'{self.problem}.' if meant else self.problem
        return f'Class {self.path} could not be found: {problem}{meant}'


@dataclass(eq=False, repr=False)
class TooOldComputeService(SetupError):
    """The oldest nova-compute is older than the release of the cloud supports.

    ``oldest`` is the lowest service version that it supports. ``release`` names the
    release, and says how it is known.
    """

    minimum: int
    oldest: int
    name: str
    release: str

    def __str__(self) -> str:
        return (
            f'Current Nova version does not support computes older than {self.name} '
            f'but the minimum compute service level in your system is {self.minimum} '
            f'and the oldest supported service level is {self.oldest}. '
            f'This is {self.release}.'
        )


@dataclass(eq=False, repr=False)
class ServiceTooOld(SetupError):
    """Other nova-scheduler services are newer than this one."""

    version: int
    minimum: int

    def __str__(self) -> str:
        return (
            f'This service is older (v{self.version}) than the minimum '
            f'(v{self.minimum}) version of the rest of the deployment. '
            'Unable to continue.'
        )

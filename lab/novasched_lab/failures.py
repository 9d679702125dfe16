# SPDX-License-Identifier: Apache-2.0
"""Why an instance was not built or moved, and what its owner is told of it."""

from __future__ import annotations

import traceback

import oslo_messaging  # type: ignore[import-untyped]

from novasched import errors
from novasched.rpc import faults
from novasched_lab.store.events import Fault

FAILURES: tuple[type[Exception], ...] = (
    errors.NovaschedError,
    oslo_messaging.MessagingException,
    oslo_messaging.MessageUndeliverable,
    faults.WireError,
)
"""What the steps of a conductor and a compute may raise."""

NOVAS = {
    form.wire.__name__
    for form in faults.TABLE.values()
    if form.wire.__module__ == faults.NOVA
} | {'MaxRetriesExceeded', 'UnsupportedPolicyException'}


class MaxRetriesExceeded(errors.NoValidHost):
    """An instance was tried as often, or on as many hosts, as it may be."""

    def __str__(self) -> str:
        return f'Exceeded maximum number of retries. {self.reason}'


class UnsupportedPolicy(errors.RequestError):
    """The policy of a server group needs a filter or weigher that is not enabled."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f'ServerGroup policy is not supported: {self.reason}'


class QuotaExceeded(errors.RequestError):
    """The project has as many instances as it may have."""

    def __init__(self, project_id: str, limit: int) -> None:
        super().__init__(project_id, limit)
        self.project_id = project_id
        self.limit = limit

    def __str__(self) -> str:
        return f'Quota exceeded for instances: only {self.limit} are allowed.'


class SchedulerBroke(errors.RequestError):
    """A scheduler raised what is no error of nova or oslo.messaging; the cause.

    The classes of Python arrive as they were raised, such as the ZeroDivisionError of
    a filter.
    """

    def __init__(self, problem: Exception) -> None:
        super().__init__(problem)
        self.name = type(problem).__name__
        # What comes from afar has its traceback in the text.
        self.text = str(problem).partition('\n')[0]

    def __str__(self) -> str:
        return f'The scheduler failed with {self.name}: {self.text}'


class Interrupted(errors.RequestError):
    """Whoever worked on an instance ended before the work did."""


def fault_of(problem: BaseException) -> Fault:
    """Return what the owner is told: the text of nova's errors, else their class.

    Nova: compute/utils.py, exception_to_dict.
    """
    return Fault(_message(problem), ''.join(traceback.format_exception(problem)))


def _message(problem: BaseException) -> str:
    if isinstance(problem, oslo_messaging.RemoteError):
        name, text = str(problem.exc_type), str(problem.value)
        return text if name in NOVAS else name
    if isinstance(problem, SchedulerBroke):
        return problem.name
    if isinstance(problem, errors.NovaschedError | faults.WireError):
        return str(problem)
    return type(problem).__name__


def told(problem: BaseException) -> str:
    """Return one line on a problem for the log; far tracebacks are in far logs."""
    if isinstance(problem, oslo_messaging.RemoteError):
        return f'{problem.exc_type}: {problem.value}'
    return f'{type(problem).__name__}: {problem}'


def is_no_valid_host(problem: BaseException) -> bool:
    """Say whether a scheduler, here or there, answered that there is no host."""
    if isinstance(problem, oslo_messaging.RemoteError):
        return str(problem.exc_type) in ('NoValidHost', 'MaxRetriesExceeded')
    return isinstance(problem, errors.NoValidHost) or (
        type(problem).__name__ == 'NoValidHost'
    )

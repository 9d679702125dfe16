# SPDX-License-Identifier: Apache-2.0
"""Failures of builds and moves, and the faults that owners of instances see."""

from __future__ import annotations

import traceback

import oslo_messaging  # type: ignore[import-untyped]

from novasched import errors
from novasched.rpc import faults
from novasched_lab.db.cell_servers import Fault

FAILURES: tuple[type[Exception], ...] = (
    errors.NovaschedError,
    oslo_messaging.MessagingException,
    oslo_messaging.MessageUndeliverable,
    faults.WireError,
)
"""What the steps of a conductor and a compute may raise."""

NO_VALID_HOST = ('NoValidHost', 'MaxRetriesExceeded')
NOVAS = {
    form.wire.__name__
    for form in faults.TABLE.values()
    if form.wire.__module__ == faults.NOVA
}.union(NO_VALID_HOST)


class MaxRetriesExceeded(errors.NoValidHost):
    """An instance was tried as often, or on as many hosts, as it may be."""

    def __str__(self) -> str:
        return f'Exceeded maximum number of retries. {self.reason}'


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


def fault_of(problem: BaseException) -> Fault:
    """Return the fault for the owner: the text of nova's errors, else their class.

    Nova: compute/utils.py, exception_to_dict.
    """
    message = type(problem).__name__
    if isinstance(problem, oslo_messaging.RemoteError):
        message = str(problem.exc_type)
        if message in NOVAS:
            message = str(problem.value)
    elif isinstance(problem, SchedulerBroke):
        message = problem.name
    elif isinstance(problem, errors.NovaschedError | faults.WireError):
        message = str(problem)
    return Fault(message, ''.join(traceback.format_exception(problem)))


def summary(problem: BaseException) -> str:
    """Return one line on a problem for the log, without a remote traceback."""
    if isinstance(problem, oslo_messaging.RemoteError):
        return f'{problem.exc_type}: {problem.value}'
    return f'{type(problem).__name__}: {problem}'


def is_no_valid_host(problem: BaseException) -> bool:
    """Return whether a scheduler, local or remote, answered that there is no host."""
    if isinstance(problem, oslo_messaging.RemoteError):
        return str(problem.exc_type) in NO_VALID_HOST
    return isinstance(problem, errors.NoValidHost) or (
        type(problem).__name__ == 'NoValidHost'
    )

# SPDX-License-Identifier: Apache-2.0
"""Checks of the components that the console reads, each within a time limit."""

from __future__ import annotations

from concurrent.futures import Future

from novasched import errors
from novasched.observability.health import PASS, Check, stamp
from novasched.runtime.clock import SYSTEM_CLOCK

CHECK_S = 3.0
"""How long a component may take to answer."""

Checks = dict[str, Check]


def checked(problem: str, status: str) -> Check:
    """Return a check that passes, or one of ``status`` if there is a problem."""
    now = stamp(SYSTEM_CLOCK.utcnow())
    return Check(status if problem else PASS, now, problem)


def answered(
    name: str, status: str, asked: Future[Checks], deadline_s: float
) -> Checks:
    """Return the checks of a component; of ``status`` if it fails, or does not answer
    by the deadline."""
    try:
        return asked.result(max(0.0, deadline_s - SYSTEM_CLOCK.monotonic()))
    except TimeoutError:
        return {name: checked(f'it did not answer within {CHECK_S:g} s', status)}
    except errors.NovaschedError as problem:
        return {name: checked(str(problem), status)}

# SPDX-License-Identifier: Apache-2.0
"""``config_options``: a JSON file for filters of releases up to Newton."""

from __future__ import annotations

import copy
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from oslo_config import cfg

from novasched.drivers import Driver, ScheduleRequest, ScheduleResult
from novasched.objects.context import RequestContext

NAME = 'scheduler_json_config_location'

OPTS: dict[str, list[cfg.Opt]] = {
    'DEFAULT': [
        cfg.StrOpt(
            NAME,
            default='',
            help="""
File with a JSON object for filters, of releases up to Newton.

Filters that look at ``config_options`` of a request find it there. It is read at the
start. If it cannot be, the start warns and ``config_options`` is empty.
""",
        ),
    ],
}


class WithConfigOptions(Driver):
    """Lets another driver choose, with ``config_options`` in each request."""

    def __init__(self, driver: Driver, values: Mapping[str, Any]) -> None:
        super().__init__(driver.parts)
        self.USES_ALLOCATION_CANDIDATES = driver.USES_ALLOCATION_CANDIDATES
        self._driver = driver
        self._values = values

    def select_destinations(self, work: ScheduleRequest) -> ScheduleResult:
        # Filters may write to it, and that is for one request.
        work.request['config_options'] = copy.deepcopy(self._values)
        return self._driver.select_destinations(work)

    def run_periodic_tasks(self, context: RequestContext) -> None:
        self._driver.run_periodic_tasks(context)


def given_to(driver: Driver, conf: Any) -> Driver:
    """Return a driver whose requests have what the file says; itself without one."""
    try:
        values = _read(conf)
    except (OSError, ValueError):  # warnings() says so
        return driver
    return WithConfigOptions(driver, values) if values else driver


def warnings(conf: Any) -> Iterator[str]:
    """Yield a line if the file cannot be read."""
    try:
        _read(conf)
    except (OSError, ValueError) as problem:
        yield (
            f'[DEFAULT] {NAME} is {conf[NAME]}, which cannot be read: {problem}. '
            'Filters that look at config_options find it empty.'
        )


def _read(conf: Any) -> dict[str, Any]:
    """Return what the file says. Raises OSError, and ValueError for nonsense."""
    if not conf[NAME]:
        return {}
    found = json.loads(pathlib.Path(conf[NAME]).read_text())
    if not isinstance(found, dict):
        raise ValueError(f'it has a {type(found).__name__} in the place of an object')
    return found

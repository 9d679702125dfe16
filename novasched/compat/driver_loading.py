# SPDX-License-Identifier: Apache-2.0
"""The driver of the options: entry points, nova's class paths, any other path."""

from __future__ import annotations

import copy
import importlib.metadata
import pathlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

import stevedore
from oslo_config import cfg

from novasched import errors
from novasched.compat.legacy_driver import LegacyDriver
from novasched.drivers import Driver, DriverContext, ScheduleRequest, ScheduleResult
from novasched.objects import context
from novasched.objects.context import RequestContext
from novasched.parsing import parse_json

NAMESPACE = 'novasched.scheduler.driver'
NOVAS_NAMESPACE = 'nova.scheduler.driver'
DEFAULT = 'filter_scheduler'
CACHING = 'caching_scheduler'
NOVA_DRIVERS = {
    'nova.scheduler.caching_scheduler.CachingScheduler': CACHING,
    'nova.scheduler.chance.ChanceScheduler': 'chance_scheduler',
    'nova.scheduler.filter_scheduler.FilterScheduler': DEFAULT,
}
JSON_FILE = 'scheduler_json_config_location'
TASKS_INTERVAL_S = 60
CACHED_FOR_S = 60.0
"""How old hosts may be by default for the caching scheduler; nova's were as old."""

OPTS: dict[str, list[cfg.Opt]] = {
    'DEFAULT': [
        cfg.StrOpt(
            JSON_FILE,
            default='',
            help="""
File with a JSON object for filters, of releases up to Newton.

Filters that look at ``config_options`` of a request find it there. It is read at the
start. If it cannot be, the start warns and ``config_options`` is empty.
""",
        ),
    ],
    'scheduler': [
        cfg.StrOpt(
            'driver',
            default=DEFAULT,
            deprecated_name='scheduler_driver',
            deprecated_group='DEFAULT',
            help="""
What chooses the hosts.

A name in the entry points ``novasched.scheduler.driver`` or ``nova.scheduler.driver``,
the class path of one of nova's former drivers, or the dotted path of any class. A
driver written for nova gets the arguments that its ``select_destinations`` takes,
whichever release it was written for.
""",
        ),
        cfg.IntOpt(
            'periodic_task_interval',
            default=TASKS_INTERVAL_S,
            deprecated_name='scheduler_driver_task_period',
            deprecated_group='DEFAULT',
            help='Seconds between runs of the periodic tasks that a driver may have; '
            'the first is at the start. 0: 60, less: no such tasks.',
        ),
    ],
}


class WithConfigOptions(Driver):
    """Lets another driver choose, with ``config_options`` in each request."""

    def __init__(self, driver: Driver, values: Mapping[str, Any]) -> None:
        super().__init__(driver.context)
        self.USES_ALLOCATION_CANDIDATES = driver.USES_ALLOCATION_CANDIDATES
        self._driver = driver
        self._values = values

    def select_destinations(self, request: ScheduleRequest) -> ScheduleResult:
        # Filters may write to it, and that is for one request.
        request.spec['config_options'] = copy.deepcopy(self._values)
        return self._driver.select_destinations(request)

    def run_periodic_tasks(self, context: RequestContext) -> None:
        self._driver.run_periodic_tasks(context)


def set_defaults(conf: Any) -> None:
    """Let the caching scheduler be what it was: hosts from memory."""
    if NOVA_DRIVERS.get(conf.scheduler.driver, conf.scheduler.driver) == CACHING:
        conf.set_default('host_state_max_age', CACHED_FOR_S, 'novasched')


def driver_from_conf(conf: Any, context: DriverContext) -> Driver:
    """Load the driver that the option names. Raises errors.OptionError."""
    cls = _class_of(conf.scheduler.driver)
    ours = isinstance(cls, type) and issubclass(cls, Driver)
    driver = cls(context) if ours else LegacyDriver(cls, context)
    return with_config_options(driver, conf)


def with_config_options(driver: Driver, conf: Any) -> Driver:
    """Return a driver whose requests have what the file says; itself without one."""
    values, _ = config_options(conf)
    return WithConfigOptions(driver, values) if values else driver


def config_options(conf: Any) -> tuple[dict[str, Any], str | None]:
    """Return the contents of the file, and a warning if it cannot be read."""
    path = conf[JSON_FILE]
    try:
        found = parse_json(pathlib.Path(path).read_text()) if path else {}
    except (OSError, ValueError) as raised:
        problem = str(raised)
    else:
        if isinstance(found, dict):
            return found, None
        problem = f'it has a {type(found).__name__} in the place of an object'
    return {}, (
        f'[DEFAULT] {JSON_FILE} is {path}, which cannot be read: {problem}. '
        'Filters that look at config_options find it empty.'
    )


def _class_of(named: str) -> Any:
    name = NOVA_DRIVERS.get(named, named)
    manager: Any = stevedore.ExtensionManager(NAMESPACE, invoke_on_load=False)
    installed = {extension.name: extension.plugin for extension in manager}
    novas = importlib.metadata.entry_points(group=NOVAS_NAMESPACE)
    if name in installed:
        return installed[name]
    if name in novas.names:
        return _loaded(name, novas[name].load)
    if '.' in name:
        return _loaded(name, lambda: pkgutil.resolve_name(name))
    names = sorted({*installed, *novas.names})
    said = f'no driver is called {name}.{errors.did_you_mean(name, names)}'
    raise _wrong(said, f'Set it to one of: {", ".join(names)}')


def _loaded(name: str, load: Callable[[], Any]) -> type:
    try:
        found = load()
    except Exception as problem:  # a module may raise anything
        raise _wrong(
            f'{name} cannot be loaded: {problem!r}', 'Correct the name or the class'
        ) from problem
    if not isinstance(found, type):
        raise _wrong(f'{name} is no class', 'Name a class')
    return found


def _wrong(problem: str, remedy: str) -> errors.OptionError:
    return errors.OptionError('[scheduler] driver', problem, remedy)


def periodic_tasks(
    conf: Any, driver: Callable[[], Driver]
) -> list[tuple[float, Callable[[], None]]]:
    """Return the periodic tasks of a driver, with the seconds between two times."""
    interval_s = conf.scheduler.periodic_task_interval
    if interval_s < 0:
        return []

    def run_periodic_tasks() -> None:
        driver().run_periodic_tasks(context.admin())

    return [(interval_s or TASKS_INTERVAL_S, run_periodic_tasks)]

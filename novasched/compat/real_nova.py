# SPDX-License-Identifier: Apache-2.0
"""Nova itself beside novasched, for plugins that ask its database or its clients.

It is imported for plugins alone, and only where [novasched] plugins_use_nova says so.
Filters, weighers and hosts stay novasched's; all other modules are nova's.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from typing import Any

from oslo_config import cfg
from oslo_db.sqlalchemy import enginefacade  # type: ignore[import-untyped]

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.instance import Instance

OPTS = {
    'novasched': [
        cfg.BoolOpt(
            'plugins_use_nova',
            default=False,
            help='Give plugins the modules of the nova that is installed in the same '
            'environment, but for filters, weighers and hosts. It reads the same '
            'configuration files, and with them its databases.',
        )
    ]
}
PROGRAM = 'nova-scheduler'
REPLACED = (
    'nova.filters',
    'nova.weights',
    'nova.openstack',
    'nova.scheduler.driver',
    'nova.scheduler.filter_scheduler',
    'nova.scheduler.filters',
    'nova.scheduler.host_manager',
    'nova.scheduler.weights',
)
"""Modules that are novasched's own also beside nova, with those below them."""


def is_wanted(conf: Any) -> bool:
    """Return whether plugins are given nova's own modules."""
    return bool(getattr(getattr(conf, 'novasched', None), 'plugins_use_nova', False))


def replaces(module: str) -> bool:
    """Return whether a module is novasched's own also beside nova."""
    return any(f'{module}.'.startswith(f'{each}.') for each in REPLACED)


def start(conf: Any) -> None:
    """Initialise nova as nova-scheduler does; once more, read its files again.

    Raises errors.OptionError where it is not installed or does not start.
    """
    os.environ.setdefault('OS_NOVA_DISABLE_EVENTLET_PATCHING', '1')
    files = [f'--config-file={path}' for path in conf.config_file or ()]
    files += [f'--config-dir={path}' for path in conf.config_dir or ()]
    try:
        if Instance.load is not None:
            importlib.import_module('nova.conf').CONF.reload_config_files()
            return
        with _own_configuration():
            importlib.import_module('nova.config').parse_args([PROGRAM, *files])
            importlib.import_module('nova.objects').register_all()
    except Exception as problem:  # nova may raise anything
        raise errors.OptionError(
            '[novasched] plugins_use_nova',
            repr(problem),
            'Install nova in this environment, or set the option to False',
        ) from problem
    # Nova's database code keeps its transactions on the context of the request.
    enginefacade.transaction_context_provider(RequestContext)
    Instance.load = staticmethod(_instance)


@contextlib.contextmanager
def _own_configuration() -> Iterator[None]:
    """Let nova register its options apart from ours, which have the same names."""
    ours, cfg.CONF = cfg.CONF, cfg.ConfigOpts()
    try:
        yield
    finally:
        cfg.CONF = ours


def _instance(uuid: str) -> Any:
    """Return an instance as nova reads it in its cell; the rest is loaded lazily."""
    context = importlib.import_module('nova.context')
    objects = importlib.import_module('nova.objects')
    admin = context.get_admin_context()
    mapping = objects.InstanceMapping.get_by_instance_uuid(admin, uuid)
    with context.target_cell(admin, mapping.cell_mapping) as targeted:
        return objects.Instance.get_by_uuid(targeted, uuid, expected_attrs=[])

# SPDX-License-Identifier: Apache-2.0
"""Every installed filter and weigher, by its entry point, made with the defaults."""

import stevedore

from novasched.scheduler.hosts import Column, Columns
from tests.support.clouds.configuration import make_conf


def _raise(manager, entry_point, problem):
    raise problem


def _made(namespace):
    conf = make_conf()
    manager = stevedore.ExtensionManager(namespace, on_load_failure_callback=_raise)
    assert len(manager.names())
    return [e.plugin.from_conf(conf) for e in sorted(manager, key=lambda e: e.name)]


FILTERS = _made('novasched.scheduler.filters')
WEIGHERS = _made('novasched.scheduler.weighers')


def name(thing):
    """Return the name of a filter or weigher, for the id of a test."""
    return type(thing).__name__


def contents(hosts):
    """Return what a table holds, its rows and columns, as text."""
    columns = [n for n, column in vars(Columns).items() if isinstance(column, Column)]
    texts = {n: repr(hosts.snapshot.column(n).tolist()) for n in columns}
    return hosts.rows.tolist(), texts

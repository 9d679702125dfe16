# SPDX-License-Identifier: Apache-2.0
"""Commands and dry runs on a cloud of this process."""

import contextlib
import functools
import random

from novasched import app
from novasched.db import engines
from novasched.inspection.session import session
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.unit.commands import played


def sources(made):
    """Return what commands read a cloud by."""
    api_engine = engines.api_engine(made.conf)
    made.stack.callback(api_engine.dispose)
    return app.Sources(
        api_engine=api_engine,
        make_cell_engine=functools.partial(engines.cell_engine, made.conf),
        placement=made.adapter,
        notifier=made,
        clock=SYSTEM_CLOCK,
        rng=random.Random(1),
    )


def run(made, kind, *words, form='json', stops=None, unreadable=(), read=None):
    """Run a command on a cloud; return its exit code, its answer, what it said.

    Once the cloud is read, a cell stops answering, by its file, and others are
    unreadable. The command reads by ``read``, if that is given.
    """

    class Here(kind):
        @contextlib.contextmanager
        def inspection(self, seed=None, what_if=None):
            given = {'seed': seed, 'what_if': what_if, 'sources': read or sources(made)}
            with session.opened(made.conf, **given) as opened, stopped(stops):
                opened.finder.unreadable += unreadable
                yield opened

    return played.run(Here, *words, form=form)


@contextlib.contextmanager
def stopped(path):
    """Let the cell of a file be unavailable; None if none is."""
    if path is None:
        yield
        return
    away = path.rename(path.with_suffix('.away'))
    try:
        yield
    finally:
        away.rename(path)

# SPDX-License-Identifier: Apache-2.0
"""Asking filters why they rejected hosts, as long as they answer soon."""

from __future__ import annotations

import logging

from novasched.objects.request_spec import RequestSpec
from novasched.runtime.clock import Clock
from novasched.scheduler import filters
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.hosts import HostState
from novasched.scheduler.outline import Ask, why
from novasched.scheduler.reasons import Code, Reason

LOG = logging.getLogger(__name__)

MOST_S = 1.0
"""Seconds that one filter may take to answer for one record."""
NOT_ASKED = Reason(Code.NOT_ASKED, '')
PACKAGE = f'{filters.__name__}.'


class Questions:
    """Asks the filters of a profile.

    A plugin that took MOST_S for a record is not asked any more, which is logged; a
    reload makes another profile, and other questions. Filters of ours do not hang:
    where they take long, the machine is busy.
    """

    def __init__(self, ask: Ask = why) -> None:
        self._ask = ask
        self._slow: dict[int, BaseHostFilter] = {}

    def of_record(self, clock: Clock) -> Ask:
        """Return a function that asks for one record; threads may share it."""
        took_s: dict[int, float] = {}

        def ask(
            filter_: BaseHostFilter, host: HostState, request: RequestSpec
        ) -> Reason:
            key = id(filter_)
            if key in self._slow:
                return NOT_ASKED
            since = clock.monotonic()
            reason = self._ask(filter_, host, request)
            took_s[key] = took_s.get(key, 0.0) + clock.monotonic() - since
            if took_s[key] >= MOST_S and not _is_built_in(filter_):
                self._slow[key] = filter_
                LOG.warning(
                    'Filter %s took %.1f s to explain rejections; its reasons are '
                    'omitted until the configuration is reloaded.',
                    filter_.name,
                    took_s[key],
                )
            return reason

        return ask


def _is_built_in(filter_: BaseHostFilter) -> bool:
    return type(filter_).__module__.startswith(PACKAGE)

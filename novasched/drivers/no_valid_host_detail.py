# SPDX-License-Identifier: Apache-2.0
"""The reasons that NoValidHost gives the caller, as far as an option allows."""

from __future__ import annotations

import enum
import itertools
import json
import logging
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

from oslo_config import cfg

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Candidates, QueryFailed
from novasched.scheduler.hosts import HostTable
from novasched.scheduler.pipeline import Profile, decide
from novasched.scheduler.reasons import Code
from novasched.scheduler.trace import Decision, Step

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.StrOpt(
            'no_valid_host_detail',
            default='none',
            choices=[
                ('none', "Nova's text, which gives no reason."),
                ('user', 'How many hosts each filter rejected, and why; no names.'),
                ('admin', 'Also the names of some hosts, and of cells left out.'),
            ],
            help="""
How much the error NoValidHost says of why there is none.

The text goes to the caller, which is nova-conductor, and from there into the fault of
the server: ``user`` and ``admin`` name the audience that may read it. The words for
the reasons are those of the page on filters. A request that fails has each filter say
why for each host that it rejected, for 1,000 of them at most, which takes 10 to 100 ms
for so many. The chance scheduler, and drivers of others, keep to their own words.
""",
        ),
    ],
}

MOST_NAMES = 3
MOST_ASKED = 1000
"""Hosts of which a filter is asked why it rejected them."""
LONGEST_ANSWER = 200
UNKNOWN = (
    (re.compile(r'No such trait\(s\): (.+?)\.?$', re.MULTILINE), 'trait'),
    (re.compile(r'No such resource class (\S+?)\.?$', re.MULTILINE), 'resource class'),
)
"""What placement says of names that it does not know."""


class Level(enum.StrEnum):
    """Who may read the text; ``NONE``: it says no more than that of nova."""

    NONE = 'none'
    USER = 'user'
    ADMIN = 'admin'


@dataclass(frozen=True)
class NoValidHostDetail:
    """Adds to the reason of NoValidHost what the level allows.

    Every method takes the reason in nova's words, and returns it as it is at ``NONE``.
    """

    level: Level = Level.NONE

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        """Read the options."""
        return cls(Level(conf.novasched.no_valid_host_detail))

    def of_answer(self, reason: str, answer: Candidates | QueryFailed) -> str:
        """Add what placement answered, which gave no candidates."""
        return self._added(reason, self._of_answer(answer))

    def of_cells(self, reason: str, cells: tuple[str, ...]) -> str:
        """Add which cells were left out."""
        return self._added(reason, self._of_cells(cells))

    def over_all(
        self, last: Decision | None, offered: HostTable, profile: Profile
    ) -> Decision | None:
        """Return the last decision of a request, as it is over all its hosts.

        A server starts from the survivors of the one before it: alone, its decision
        counts only the hosts that were left then. Filters that do not decide alike once
        more leave it as it is.
        """
        if last is None or self.level is Level.NONE or len(last.hosts) >= len(offered):
            return last
        hosts = HostTable(last.hosts.snapshot, offered.rows)
        profile = replace(profile, weighers=())
        try:
            again = decide(profile, hosts, last.request, random.Random(last.seed))
        except errors.NovaschedError as problem:
            LOG.debug('The reasons are those of the last hosts only: %s', problem)
            return last
        if len(again.ranked) > len(last.ranked):
            return last
        return replace(again, cells_left_out=last.cells_left_out)

    def of_decision(
        self, reason: str, decision: Decision | None, index: int = 0, required: int = 1
    ) -> str:
        """Add what became of the hosts for server ``index`` of a request, in the last
        decision that was made for it; None: there was none."""
        if decision is None or self.level is Level.NONE:
            return reason
        which = f'For server {index + 1} of {required}:' if required > 1 else ''
        cells = self._of_cells(decision.cells_left_out)
        return self._added(reason, which, *self._of_hosts(decision), cells)

    def _added(self, reason: str, *more: str) -> str:
        said = ' '.join(filter(None, more))
        if self.level is Level.NONE or not said:
            return reason
        return f'{reason.rstrip()} {said}'.lstrip()

    def _of_answer(self, answer: Candidates | QueryFailed) -> str:
        if isinstance(answer, Candidates):
            return 'Placement has no allocation candidates for what is asked for.'
        if not answer.status:
            return 'Placement did not answer.'
        try:  # an error of placement comes in JSON
            words = str(json.loads(answer.text)['errors'][0]['detail']).strip()
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):
            words = answer.text
        for unknown, kind in UNKNOWN:
            if found := unknown.search(words):
                name = f' {found[1]}' if self.level is Level.ADMIN else ''
                return f'Placement does not know the {kind}{name} that is asked for.'
        more = f': {words[:LONGEST_ANSWER]}' if self.level is Level.ADMIN else '.'
        return f'Placement answered with HTTP {answer.status}{more}'

    def _of_cells(self, cells: tuple[str, ...]) -> str:
        named = ', '.join(cells) if self.level is Level.ADMIN else len(cells)
        return f'Cells left out: {named}.' if cells else ''

    def _of_hosts(self, decision: Decision) -> Iterator[str]:
        """Yield a sentence for each way in which hosts were lost."""
        start = len(decision.hosts)
        if not start:
            yield 'Placement offers no host that is known and has a compute service.'
        steps = decision.steps
        narrowed = len(steps[0].before if steps else decision.weighed.hosts)
        if narrowed < start:
            yield f'Left out, as the request names hosts: {start - narrowed}.'
        rejecting = [step for step in steps if len(step.after) < len(step.before)]
        if rejecting:
            each = (self._of_step(step, decision.request) for step in rejecting)
            yield f'Rejected: {"; ".join(each)}.'
        if len(decision.ranked):
            yield f'Passed, but not granted by placement: {len(decision.ranked)} hosts.'

    def _of_step(self, step: Step, request: RequestSpec) -> str:
        hosts = _by_code(step, request)
        most_first = sorted(hosts, key=lambda code: (-len(hosts[code]), code))
        said = ', '.join(self._of_code(code, hosts[code]) for code in most_first)
        rejected = len(step.before) - len(step.after)
        if rejected > MOST_ASKED:
            said += f', not asked {rejected - MOST_ASKED}'
        return f'{step.name} {rejected} of {len(step.before)} ({said})'

    def _of_code(self, code: Code, hosts: list[str]) -> str:
        if self.level is not Level.ADMIN:
            return f'{code} {len(hosts)}'
        dots = ' ...' if len(hosts) > MOST_NAMES else ''
        return f'{code} {len(hosts)}: {" ".join(hosts[:MOST_NAMES])}{dots}'


def _by_code(step: Step, request: RequestSpec) -> dict[Code, list[str]]:
    """Return the hosts that a filter rejected by reason; a plugin may not say it.

    Only words of the closed list are given on: the text of a plugin may name a host.
    """
    found: dict[Code, list[str]] = {}
    try:
        for host, why in itertools.islice(step.reasons(request), MOST_ASKED):
            code = getattr(why, 'code', None)
            known = code if isinstance(code, Code) else Code.REJECTED
            found.setdefault(known, []).append(host.host)
    except Exception:  # noqa: BLE001 a plugin may raise anything
        return {Code.REJECTED: step.rejected.host.tolist()[:MOST_ASKED]}
    return found

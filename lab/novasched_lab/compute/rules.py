# SPDX-License-Identifier: Apache-2.0
"""Which hosts misbehave, and how: a fleet on which nothing fails shows little."""

from __future__ import annotations

import fnmatch
import random
from collections.abc import Sequence
from dataclasses import dataclass

REFUSE, FAIL, ABORT, LOSE = OUTCOMES = ('refuse', 'fail', 'abort', 'lose')
"""The claim is refused; the build fails after it; it fails for good, anywhere; the
host forgets what it was asked for, as one does whose process was killed."""


@dataclass(frozen=True)
class Rule:
    """What hosts do with instances; ``hosts`` and ``flavors`` are shell patterns."""

    outcome: str
    probability: float = 1.0
    hosts: tuple[str, ...] = ('*',)
    flavors: tuple[str, ...] = ('*',)

    def concerns(self, host: str, flavor: str) -> bool:
        """Say whether the rule is about such an instance on the host."""
        return _matches(host, self.hosts) and _matches(flavor, self.flavors)


class Rules:
    """Decides what a host does with an instance: the same for the same seed."""

    def __init__(self, rules: Sequence[Rule] = (), seed: int = 0) -> None:
        self._rules = tuple(rules)
        self._seed = seed

    def outcome(self, host: str, flavor: str, instance_uuid: str) -> str | None:
        """Return the outcome of the first rule that strikes; None: all goes well.

        It depends on the arguments and the seed alone, so that neither threads nor
        the order of messages change it.
        """
        for number, rule in enumerate(self._rules):
            chance = random.Random(f'{self._seed}/{number}/{host}/{instance_uuid}')
            if rule.concerns(host, flavor) and chance.random() < rule.probability:
                return rule.outcome
        return None


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

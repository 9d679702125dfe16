# SPDX-License-Identifier: Apache-2.0
"""Faults that hosts of a fleet inject: refused claims."""

from __future__ import annotations

import fnmatch
import random
from collections.abc import Sequence
from dataclasses import dataclass

REFUSE = 'refuse'
"""The only outcome of a rule: the host refuses the claim."""


@dataclass(frozen=True)
class FaultRule:
    """Refusals of some hosts; ``hosts`` and ``flavors`` are shell patterns."""

    outcome: str
    probability: float = 1.0
    hosts: tuple[str, ...] = ('*',)
    flavors: tuple[str, ...] = ('*',)

    def concerns(self, host: str, flavor: str) -> bool:
        """Return True if the rule is about such an instance on the host."""
        return _matches(host, self.hosts) and _matches(flavor, self.flavors)


class FaultRules:
    """Decides which hosts refuse an instance: the same for the same seed."""

    def __init__(self, rules: Sequence[FaultRule] = (), seed: int = 0) -> None:
        self._rules = tuple(rules)
        self._seed = seed

    def refuses(self, host: str, flavor: str, instance_uuid: str) -> bool:
        """Return True if a rule has the host refuse the instance.

        It depends on the arguments and the seed alone, not on threads or the order of
        messages.
        """
        for number, rule in enumerate(self._rules):
            chance = random.Random(f'{self._seed}/{number}/{host}/{instance_uuid}')
            if rule.concerns(host, flavor) and chance.random() < rule.probability:
                return True
        return False


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

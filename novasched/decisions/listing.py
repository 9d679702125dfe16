# SPDX-License-Identifier: Apache-2.0
"""Decisions and counts as lists have them: JSON of commands and of the console."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from novasched.decisions.counting import Count
from novasched.decisions.record import Head, Servers
from novasched.runtime.typed_json import time_field


@dataclass(frozen=True)
class ListedDecision(Head):
    """A decision without its body, with its servers and the hosts that were picked."""

    at: int = time_field()
    picked: Sequence[str] = ()
    server_uuids: Sequence[str] = ()

    @property
    def server(self) -> str:
        return next(iter(self.server_uuids), '')


@dataclass(frozen=True)
class NewestDecision(Head):
    """One of the newest decisions of a scheduler, as it travels."""

    picked: Sequence[str] = ()
    server: str = ''
    rejected: int = 0
    """How many hosts the most frequent reason stands for; 0: it is not known."""


@dataclass(frozen=True)
class ShownDecision(NewestDecision):
    """One of the newest decisions of all schedulers; ``scheduler`` is its host."""

    at: int = time_field()
    scheduler: str = ''

    @property
    def why(self) -> str:
        """The reason why there is no host, with how many hosts had it."""
        why = super().why
        return f'{why} {self.rejected}' if why and self.rejected else why


@dataclass(frozen=True)
class DecisionPage:
    """A page of a console's list: ``next`` is the id to go on before, if any."""

    decisions: Sequence[ListedDecision] = ()
    next: str | None = None
    unanswered: Sequence[str] = ()  # schedulers that may have more


@dataclass(frozen=True)
class CountPage:
    """Counts of the decisions that have a value in common."""

    rows: Sequence[Count] = ()
    unanswered: Sequence[str] = ()


def listed(
    heads: Iterable[Head], servers: Mapping[str, Servers]
) -> list[ListedDecision]:
    """Return the decisions of heads, whose servers are known by id."""
    known = ((head, servers.get(head.id, Servers())) for head in heads)
    return [
        ListedDecision(**vars(head), picked=its.hosts, server_uuids=its.uuids)
        for head, its in known
    ]

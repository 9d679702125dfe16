# SPDX-License-Identifier: Apache-2.0
"""What is asked for in the address of a page, and the addresses of other pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from novasched import errors
from novasched.commands.console_client import API
from novasched.commands.console_client import of_decision as of_decision
from novasched.commands.console_client import of_host as of_host
from novasched.decisions.reading import Criteria
from novasched.inspection.questions.capacity import MOST_BY_HOST
from novasched.inspection.session.orders import CapacityOrder, DecisionsOrder, options
from novasched.runtime.clock import SYSTEM_CLOCK

Order = TypeVar('Order')
LONGEST = 2000
MOST_FLAVORS = 20
"""Flavors that are counted for a page."""


class PageQuery:
    """The path and the parameters of an address; neither is given quoted.

    ``path`` is quoted, as it stands in links.
    """

    def __init__(self, path: str, given: Iterable[tuple[str, str]] = ()) -> None:
        self.path = quote(path)
        self.given = [(name, value) for name, value in given if value.strip()]
        self.read: set[str] = set()  # names of parameters that were looked at

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the values of a parameter. Raises errors.OptionError."""
        self.read.add(name)
        found = tuple(value.strip() for n, value in self.given if n == name)
        for each in found:
            if len(each) > LONGEST:
                problem = f'it has {len(each)} characters'
                raise errors.OptionError(name, problem, f'Give {LONGEST} at most')
        return found

    def text(self, name: str) -> str:
        """Return the last value of a parameter, '' if it has none."""
        return next(reversed(self.texts(name)), '')

    def lines(self, name: str) -> tuple[str, ...]:
        """Return the lines of a parameter that are not empty."""
        lines = (line.strip() for text in self.texts(name) for line in text.split('\n'))
        return tuple(filter(None, lines))

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return a number. Raises errors.OptionError."""
        text = self.text(name)
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            problem = f'{text!r} is no number from {least} to {most}'
            raise errors.OptionError(name, problem, 'Correct it')
        return int(text)

    def index(self) -> int | None:
        """Return which server of a request is asked about."""
        return self.number('index', 0, 0, 10**6) if self.text('index') else None

    def choice(self, name: str, known: Sequence[str]) -> str:
        """Return a word of a list, or ''. Raises errors.OptionError."""
        word = self.text(name)
        if word and word not in known:
            meant = f'It is one of {", ".join(known)}'
            raise errors.OptionError(name, f'{word!r} is not known', meant)
        return word

    def href(self, **changes: str | int | None) -> str:
        """Return this address with other values; None and '' take one away."""
        kept = [(n, value) for n, value in self.given if n not in changes]
        new = [(n, str(v)) for n, v in changes.items() if v not in (None, '')]
        return address(self.path, [*kept, *new])

    def api(self) -> str:
        """Return the address of the same as JSON."""
        return address(API + self.path, self.given)

    # -- what the reader is asked

    def criteria(self) -> Criteria:
        """Return criteria for decisions. Raises errors.OptionError."""
        return self.order(DecisionsOrder).criteria(SYSTEM_CLOCK.time())

    def order(self, kind: type[Order], **names: str) -> Order:
        """Return an order of a kind; ``names`` are in the path. Raises
        errors.OptionError."""
        given: dict[str, Any] = dict(names)
        for name, default, said in options(kind):
            if name in names:
                continue
            if isinstance(default, tuple):
                given[name] = self.lines(name)
            elif isinstance(default, bool):
                given[name] = self.number(name, 0, 0, 1) == 1
            elif isinstance(default, int):
                given[name] = self.number(name, default, *said.bounds)
            elif default is None:
                known = self.text(name)
                given[name] = self.number(name, 0, *said.bounds) if known else None
            elif said.choices:
                given[name] = self.choice(name, said.choices)
            else:
                given[name] = self.text(name) or default
        return kind(**given)

    def capacity(self) -> CapacityOrder:
        """Return the order to count. Raises errors.OptionError."""
        order = self.order(CapacityOrder)
        number, by_host = len(order.flavors), order.by == 'host'
        most = MOST_BY_HOST if by_host else MOST_FLAVORS
        if number > most:
            apart = ' to count hosts apart' if by_host else ''
            problem, remedy = f'{number} are named', f'Name {most}{apart} at most'
            raise errors.OptionError('flavors', problem, remedy)
        return order


def opened(by: str, value: str | None) -> str:
    """Return the address of a host, of a decision, or of those that meet a criterion;
    '': without a value there is none."""
    if not by or not value:
        return ''
    if by in ('host', 'decision'):
        return of_host(value) if by == 'host' else of_decision(value)
    if by == 'slots':
        return address('/capacity', [('heat', value)])
    of_list = of_hosts if by in ('cell', 'aggregate') else of_decisions
    return of_list(**{by: value})


def address(path: str, given: Iterable[tuple[str, str]] = ()) -> str:
    """Return the address of a page with parameters."""
    said = urlencode(list(given))
    return f'{path}?{said}' if said else path


def of_decisions(**criteria: str) -> str:
    """Return the address of the decisions that meet criteria."""
    return address('/decisions', [(n, v) for n, v in criteria.items() if v])


def of_hosts(**order: str | int) -> str:
    """Return the address of a list of hosts."""
    return address('/hosts', [(n, str(v)) for n, v in order.items() if v != ''])

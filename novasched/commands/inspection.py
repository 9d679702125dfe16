# SPDX-License-Identifier: Apache-2.0
"""The base of the commands on what could be decided now."""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from novasched import errors
from novasched.commands.base import Order, ReportCommand, order_of
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.deadline import Deadline

if TYPE_CHECKING:
    from novasched.inspection.session.session import Inspection, ReadRecord
    from novasched.inspection.session.what_if import WhatIf

WITHIN_S = 3600.0
"""How long a command may work; then it is ended."""


class InspectionCommand(ReportCommand):
    """A report on what could be decided now; it reads databases and placement."""

    @contextlib.contextmanager
    def inspection(
        self, seed: int | None = None, what_if: WhatIf | None = None
    ) -> Iterator[Inspection]:
        """Read the cloud that the configuration names, or what it would be. Raises
        errors.SetupError and errors.StoreFailed; what takes longer than WITHIN_S
        raises deadline.TookTooLong."""
        from novasched.inspection.session import session

        conf = self.configuration(session.options())
        check = Deadline(WITHIN_S, SYSTEM_CLOCK.monotonic).check
        opening = session.opened(conf, seed=seed, what_if=what_if, check=check)
        with opening as inspection:
            yield inspection

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        try:
            return super().take_action(parsed_args)
        except errors.StoreFailed as problem:
            said = f'{problem.problem}. {errors.CONNECTIONS}'
            raise type(problem)(problem.store, said) from problem

    @staticmethod
    def order(kind: type[Order], parsed_args: argparse.Namespace, **more: Any) -> Order:
        """Return the order that is asked for, with what it names of files in full:
        a console does not see them. Raises errors.OptionError."""
        from novasched.inspection.session.catalogue import from_file

        order = order_of(kind, parsed_args, **more)
        changes: dict[str, Any] = {}
        for name, path, entries in (
            ('flavor', 'flavor_file', 'flavors'),
            ('flavors', 'flavor_file', 'flavors'),
            ('image', 'image_file', 'images'),
        ):
            if (file := getattr(parsed_args, path, None)) and hasattr(order, name):
                said = getattr(order, name)
                texts = [said] if isinstance(said, str) else said
                full = tuple(from_file(text, file, entries) for text in texts)
                changes[name] = full[0] if isinstance(said, str) else full
        return replace(order, **changes)  # type: ignore[type-var]

    def inspection_of(
        self, order: Any, seed: int | None = None
    ) -> contextlib.AbstractContextManager[Inspection]:
        """Read the cloud as an order changes it; see inspection()."""
        from novasched.inspection.session.what_if import WhatIf

        return self.inspection(seed, WhatIf.of(order.what_if))

    @staticmethod
    def reader(inspection: Inspection) -> ReadRecord:
        """Return the function that reads the record of a decision."""
        from novasched.commands import sources

        return functools.partial(sources.record, inspection.conf)

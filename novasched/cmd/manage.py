# SPDX-License-Identifier: Apache-2.0
"""Run novasched-manage."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Sequence

from cliff.command import Command

from novasched.cmd import quietly
from novasched.manage import audit, cell_v2
from novasched.manage.program import CommandProgram

COMMANDS: dict[str, type[Command]] = {
    'cell_v2 map_cell0': cell_v2.MapCell0,
    'cell_v2 create_cell': cell_v2.CreateCell,
    'cell_v2 list_cells': cell_v2.ListCells,
    'cell_v2 list_hosts': cell_v2.ListHosts,
    'cell_v2 discover_hosts': cell_v2.DiscoverHosts,
    'placement audit': audit.PlacementAudit,
}


def commands() -> dict[str, type[Command]]:
    """Return these, and those that other distributions add by an entry point."""
    points = importlib.metadata.entry_points(group='novasched.manage')
    return COMMANDS | {point.name: point.load() for point in points}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code, as nova-manage has them."""
    return quietly(lambda words: CommandProgram(commands()).run(words), argv)


if __name__ == '__main__':
    sys.exit(main())

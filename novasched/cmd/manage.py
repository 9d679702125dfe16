# SPDX-License-Identifier: Apache-2.0
"""Run novasched-manage."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from novasched.cmd import ending
from novasched.manage import cell_v2, schemas
from novasched.manage.program import Program

COMMANDS = {
    'db sync': schemas.DbSync,
    'api_db sync': schemas.ApiDbSync,
    'cell_v2 map_cell0': cell_v2.MapCell0,
    'cell_v2 create_cell': cell_v2.CreateCell,
    'cell_v2 list_cells': cell_v2.ListCells,
    'cell_v2 list_hosts': cell_v2.ListHosts,
    'cell_v2 discover_hosts': cell_v2.DiscoverHosts,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code, as nova-manage has them."""
    words = list(sys.argv[1:] if argv is None else argv)
    return ending.quietly(lambda: Program(COMMANDS).run(words))


if __name__ == '__main__':
    sys.exit(main())

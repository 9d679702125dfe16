# SPDX-License-Identifier: Apache-2.0
"""Run novasched-manage."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from novasched.manage.program import Program


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code, as nova-manage has them."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return Program().run(arguments or ['help'])


if __name__ == '__main__':
    sys.exit(main())

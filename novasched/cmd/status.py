# SPDX-License-Identifier: Apache-2.0
"""Run novasched-status."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from novasched.cmd import quietly
from novasched.manage.status import Status, UpgradeCheck

COMMANDS = {'upgrade check': UpgradeCheck}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code, as nova-status has them."""
    return quietly(lambda words: Status(COMMANDS).run(words), argv)


if __name__ == '__main__':
    sys.exit(main())

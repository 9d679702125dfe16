# SPDX-License-Identifier: Apache-2.0
"""Run novasched-status."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

# The libraries load eventlet where it is installed, whether it is used or not.
warnings.filterwarnings('ignore', r'\s*Eventlet is deprecated')

from novasched.manage.status import Status, UpgradeCheck  # noqa: E402

COMMANDS = {'upgrade check': UpgradeCheck}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code, as nova-status has them."""
    return Status(COMMANDS).run(list(sys.argv[1:] if argv is None else argv))


if __name__ == '__main__':
    sys.exit(main())

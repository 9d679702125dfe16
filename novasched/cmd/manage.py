# SPDX-License-Identifier: Apache-2.0
"""Run novasched-manage."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

# The libraries load eventlet where it is installed, whether it is used or not.
warnings.filterwarnings('ignore', r'\s*Eventlet is deprecated')

from novasched.manage.program import Program  # noqa: E402


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code, as nova-manage has them."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return Program().run(arguments or ['help'])


if __name__ == '__main__':
    sys.exit(main())

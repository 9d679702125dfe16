# SPDX-License-Identifier: Apache-2.0
"""Requests that a shadow keeps whole, so that they can be decided again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oslo_config import cfg

from novasched.decisions.comparison import SIMILAR, ServerComparison

KeepsWhole = Callable[[Sequence[ServerComparison]], bool]
"""Whether a request is kept whole, by the comparisons of its servers."""
ALL, DIFFERING, NONE = 'all', 'differing', 'none'

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.StrOpt(
            'shadow_keep',
            default=DIFFERING,
            choices=[
                (ALL, 'every request'),
                (DIFFERING, 'requests of which a server differs'),
                (NONE, 'none'),
            ],
            help="""
Requests that a shadow keeps whole, for ``novasched shadow replay``.

They are in the decision log, and go with its files. Servers on another host of the same
weight count as equal. A request takes 0.13 to 0.17 KiB for each host that placement
offers. One of more than 2 MiB is not kept, nor is any while the log cannot be written.
""",
        ),
    ]
}


def is_kept_whole(keep: str, compared: Sequence[ServerComparison]) -> bool:
    """Return whether a request is kept whole, by ``[novasched] shadow_keep``."""
    differs = any(each.verdict not in SIMILAR for each in compared)
    return keep == ALL or (keep == DIFFERING and differs)

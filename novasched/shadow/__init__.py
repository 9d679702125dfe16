# SPDX-License-Identifier: Apache-2.0
"""The shadow: decides what nova-scheduler is asked, claims nothing, and compares."""

from oslo_config import cfg

ALL, DIFFERING, NONE = 'all', 'differing', 'none'

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.BoolOpt(
            'shadow',
            default=False,
            help='Decide what nova-scheduler is asked, beside it: claim, write and '
            'answer nothing, and keep with each decision what nova chose. Compare them '
            'with `novasched shadow report`.',
        ),
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
offers it; one of more than 2 MiB is not kept, nor any while the log cannot be written.
""",
        ),
    ]
}

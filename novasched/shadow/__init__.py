# SPDX-License-Identifier: Apache-2.0
"""The shadow: decides what nova-scheduler is asked, claims nothing, and compares."""

from oslo_config import cfg

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.BoolOpt(
            'shadow',
            default=False,
            help='Decide what nova-scheduler is asked, beside it: claim, write and '
            'answer nothing, and keep with each decision what nova chose. Compare them '
            'with `novasched shadow report`.',
        ),
    ]
}

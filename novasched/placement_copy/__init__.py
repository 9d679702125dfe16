# SPDX-License-Identifier: Apache-2.0
"""A copy of what placement knows, by which candidates are found without asking it.

Placement stays the arbiter: a claim is made there, and a copy that is behind costs a
refusal and the next host.
"""

from __future__ import annotations

from oslo_config import cfg

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.StrOpt(
            'candidates',
            default='auto',
            choices=[
                ('auto', 'the copy as soon and as long as there is one'),
                ('mirror', 'the same; where there is none, health warns'),
                ('placement', 'each request asks placement, as with nova'),
            ],
            help="""
Where allocation candidates come from.

Each worker has a copy of what placement knows of resource providers, and computes the
candidates of a request from it, in about a millisecond at 10,000 hosts. Every host is
considered: ``[scheduler] max_placement_results`` does not count. What is picked is
verified in placement before it is claimed there. Placement is asked for
candidates as long as the copy is not there or too old, and for what cannot be computed.

The copy is read from the database that ``[placement_database] connection`` names, or,
without it, from placement's API, by one worker of a machine for all.

Related options:

* ``[placement_database] connection``
* ``[novasched] mirror_max_age``
* ``[novasched] mirror_api_share``
""",
        ),
        cfg.FloatOpt(
            'mirror_max_age',
            min=1.0,
            sample_default='60, or 600 where it is read from the API',
            help='Seconds after which a copy of placement that was not brought up to '
            'date is not used any more, and placement is asked for candidates: a read '
            'of it hangs. Where one fails, it is asked at once.',
        ),
        cfg.FloatOpt(
            'mirror_api_share',
            default=0.02,
            min=0.001,
            max=1.0,
            help='The share of the time of one CPU of placement that all workers of a '
            'machine together may take to keep a copy of it by the API, without '
            '``[placement_database] connection``. The first load may take half.',
        ),
        cfg.BoolOpt(
            'placement_diagnosis',
            default=True,
            help="""
Diagnose empty and short answers of GET /allocation_candidates.

Placement gives no reasons. After a request that got no candidates, the condition that
each host failed is found from the copy of placement, at once or as soon as the copy
has caught up. No request waits for it. A copy is kept for this alone, where
``[novasched] candidates = placement``.
""",
        ),
    ]
}


def uses_copy(conf: cfg.ConfigOpts) -> bool:
    """Return whether candidates come from the copy."""
    return bool(conf.novasched.candidates != 'placement')

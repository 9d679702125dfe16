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
            default='placement',
            choices=[
                ('placement', 'each request asks placement, as with nova'),
                ('mirror', 'they are computed from a copy of its state'),
            ],
            help="""
Where allocation candidates come from.

With ``mirror`` each worker keeps a copy of what placement knows of resource providers,
and computes the candidates of a request from it, in about a millisecond at 10,000
hosts. Every host is considered: ``[scheduler] max_placement_results`` does not count.
Claims are made in placement as always; where the copy was behind, placement refuses
the claim, and the next host is tried. Placement is asked for candidates as long as
the copy is not there or too old, and for what cannot be computed.

The copy is read from the database that ``[placement_database] connection`` names, or,
without it, from placement's API, which suits clouds of up to some thousand hosts.

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
            default=0.03,
            min=0.001,
            max=1.0,
            help='The share of the time of one CPU of placement that a worker may take '
            'to keep its copy by the API, without ``[placement_database] connection``.',
        ),
    ]
}

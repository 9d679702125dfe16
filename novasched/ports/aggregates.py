# SPDX-License-Identifier: Apache-2.0
"""What is known of the aggregates without reading them."""

from __future__ import annotations

import datetime
from typing import NamedTuple


class AggregatesMark(NamedTuple):
    """What tells the aggregates of one moment from those of another, at a low price.

    ``counts`` are the number of rows, the highest id and the newest stamps of each
    table. Those who write in the second of the ``newest`` stamp, or by a clock that is
    behind, may leave it as it is; None: there are no stamps.
    """

    counts: tuple[tuple[object, ...], ...]
    newest: datetime.datetime | None

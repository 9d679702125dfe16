# SPDX-License-Identifier: Apache-2.0
"""A whole cloud inside this process, to try the scheduler on.

novasched.rpc comes first: it chooses native threads before any other module
makes oslo.service choose.
"""

from __future__ import annotations

import novasched.rpc  # noqa: F401

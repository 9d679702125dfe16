# SPDX-License-Identifier: Apache-2.0
"""novasched: an independent, drop-in replacement of OpenStack's nova-scheduler.

Several libraries load oslo.service, whose default is eventlet. Ours is native
threads, unless the program chooses before it imports anything else.
"""

from __future__ import annotations

try:
    from oslo_service import backend  # type: ignore[import-untyped]
except KeyboardInterrupt:
    # Programs import this first of all, and end on Ctrl-C without a traceback.
    raise SystemExit(130) from None

backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)

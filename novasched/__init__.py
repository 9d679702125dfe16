# SPDX-License-Identifier: Apache-2.0
"""novasched: an independent, drop-in replacement of OpenStack's nova-scheduler.

Several libraries load oslo.service, whose default is eventlet. Ours is native
threads, unless the program chooses before it imports anything else.
"""

from __future__ import annotations

from oslo_service import backend  # type: ignore[import-untyped]

backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)

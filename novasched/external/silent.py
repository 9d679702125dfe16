# SPDX-License-Identifier: Apache-2.0
"""A notifier that sends nothing."""

from __future__ import annotations

from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.releases import Release


class SilentNotifier:
    """Sends nothing. Satisfies ports.Notifier."""

    def select_destinations(
        self, context: RequestContext, spec: RequestSpec, phase: str
    ) -> None:
        """Do nothing."""

    def of_release(self, release: Release) -> SilentNotifier:
        return self

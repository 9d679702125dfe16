# SPDX-License-Identifier: Apache-2.0
"""What resource providers are called."""

from __future__ import annotations

import json

from keystoneauth1.adapter import Adapter

from novasched.objects.context import RequestContext
from novasched.placement.http import NoAnswer, ask


class Providers:
    """Asks placement for the names of providers."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def name(self, context: RequestContext, uuid: str) -> str:
        """Return the name of a provider, or its uuid where it is not known."""
        url = f'/resource_providers/{uuid}'
        answer = ask(self._adapter, context, 'GET', url, None)
        if isinstance(answer, NoAnswer) or answer.status_code != 200:
            return uuid
        try:
            return str(json.loads(answer.content)['name'])
        except (ValueError, KeyError, TypeError):
            return uuid

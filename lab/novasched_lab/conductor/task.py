# SPDX-License-Identifier: Apache-2.0
"""What a first and a further try to build an instance have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched_lab.cells import Link
from novasched_lab.conductor.parts import Parts


class Task:
    """Works for one request of a user; ``passed_on`` is for the computes."""

    def __init__(
        self,
        parts: Parts,
        context: RequestContext,
        image: Any,
        passed_on: dict[str, Any],
    ) -> None:
        self._parts = parts
        self._context = context
        self._image = image
        self._passed_on = passed_on

    def _send(
        self,
        link: Link,
        instance: Instance,
        request: RequestSpec,
        properties: Mapping[str, Any],
        chosen: Selection,
        alternates: Sequence[Selection],
    ) -> None:
        """Have an instance built, as its cell has it by now."""
        if link.computes is None:
            raise errors.StoreFailed(f'Cell {link.cell.uuid}', 'it has no computes')
        link.computes.build_and_run_instance(
            self._context,
            chosen.service_host,
            instance=link.servers.instance(instance.uuid) or instance,
            image=self._image,
            request_spec=request,
            filter_properties=properties,
            node=chosen.nodename,
            limits=chosen.limits,
            host_list=alternates,
            **self._passed_on,
        )

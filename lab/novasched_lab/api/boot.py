# SPDX-License-Identifier: Apache-2.0
"""New servers: what the API leaves behind before the conductor is asked.

Nova: compute/api.py, _provision_instances.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import oslo_messaging  # type: ignore[import-untyped]

from novasched import errors
from novasched.db.server_groups import ServerGroup
from novasched.inspection.session.orders import POLICIES
from novasched.inspection.session.server_request import destined, request_spec
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.aggregates import metadata
from novasched_lab.api.new_instance import instance_of
from novasched_lab.api.service import ApiContext
from novasched_lab.rpc_api import build_request_of

LIMIT = 'max_server_per_host'
ZONE = 'availability_zone'


@dataclass(eq=False, repr=False)
class NoConductorAnswers(errors.RequestError):
    """No conductor was reached, or none answers; ``problem`` says why."""

    problem: str

    def __str__(self) -> str:
        return (
            f'No conductor answers: {self.problem.rstrip(".: ")}. Start '
            'novasched-conductor with the same [DEFAULT] transport_url.'
        )


@dataclass(frozen=True)
class Order:
    """Servers to be booted; ``zone`` may be zone:host:node.

    ``host`` is where they must go, after its filters have agreed.
    """

    name: str
    flavor: Flavor
    image: Mapping[str, Any]
    count: int = 1
    zone: str | None = None
    hints: Mapping[str, Sequence[str]] = field(default_factory=dict)
    host: str | None = None
    group: ServerGroup | None = None


def group_for(
    api: ApiContext,
    context: RequestContext,
    name: str,
    policy: str | None = None,
    limit: int | None = None,
) -> ServerGroup:
    """Return the server group of a name or uuid; with a policy, make it.

    ``limit`` is how many of its servers a host may have, under anti-affinity. Raises
    errors.OptionError.
    """
    found = api.groups.find(name, context.project_id)
    if found is not None and policy not in (None, found.policy):
        raise errors.OptionError(
            '--policy',
            f'the policy of server group {name} is {found.policy}',
            'Leave --policy out, or name another group',
        )
    if found is not None:
        return found
    if policy is None:
        raise errors.OptionError(
            '--group',
            f'there is no server group {name}',
            f'Give --policy, one of {", ".join(POLICIES)}, to make it',
        )
    rules = {} if limit is None else {LIMIT: str(limit)}
    return api.groups.create(name, policy, rules, context.project_id, context.user_id)


def check_places(api: ApiContext, zone: str | None, host: str | None) -> None:
    """Look whether there is such a zone, and a cell of the host.

    ``zone`` may be zone:host:node. Raises errors.OptionError and errors.StoreFailed.
    """
    named = (zone or '').partition(':')[0]
    known = {api.default_zone, *metadata(api.database.aggregates()).get(ZONE, ())}
    if named and named not in known:
        raise errors.OptionError(
            '--availability-zone',
            f'there is no zone {named}',
            f'Name one of {", ".join(sorted(known))}',
        )
    if host is not None and api.database.host_cell(host) is None:
        raise errors.OptionError(
            '--host',
            f'{host} is mapped to no cell',
            'See novasched-manage cell_v2 list_hosts, and run cell_v2 discover_hosts',
        )


def boot(api: ApiContext, context: RequestContext, order: Order) -> dict[str, str]:
    """Ask for servers; return their names by uuid, in the order of their numbers.

    Where no conductor is reached, nothing is left behind. Raises NoConductorAnswers,
    errors.InvalidRequest and errors.StoreFailed.
    """
    uuids = [str(uuid.uuid4()) for _ in range(order.count)]
    with contextlib.ExitStack() as undo:
        group = order.group
        if group is not None:
            undo.callback(api.groups.leave, uuids)
            group = api.groups.join(group, uuids)
        wanted = _wanted(api, context, order, uuids, group)
        for each in uuids:
            undo.callback(api.database.forget, each)
        api.database.ask_for(wanted)
        builds = [build_request_of(instance) for instance, _ in wanted]
        try:
            api.conductor.schedule_and_build_instances(
                context, builds, [request for _, request in wanted], order.image
            )
        except oslo_messaging.MessagingException as problem:
            raise NoConductorAnswers(str(problem)) from problem
        undo.pop_all()
    return {instance.uuid: str(instance.display_name) for instance, _ in wanted}


def _wanted(
    api: ApiContext,
    context: RequestContext,
    order: Order,
    uuids: Sequence[str],
    group: ServerGroup | None,
) -> list[tuple[Instance, RequestSpec]]:
    """Return the new instances, each with its request."""
    hints = dict(order.hints)
    if group is not None:
        hints['group'] = [group.uuid]
    found = []
    for number, each in enumerate(uuids):
        request = request_spec(
            each,
            order.flavor,
            order.image,
            project_id=context.project_id,
            user_id=context.user_id,
            num_instances=order.count,
            availability_zone=order.zone,
            hints=hints,
            group=group and group.as_object(),
            aliases=api.aliases,
        )
        if order.host is not None:
            request = destined(request, order.host)
        name = order.name if order.count == 1 else f'{order.name}-{number + 1}'
        found.append((instance_of(request, name, number), request))
    return found

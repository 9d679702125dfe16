# SPDX-License-Identifier: Apache-2.0
"""RPC methods of a conductor: arguments decoded, tasks run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.rpc.serializer import decode
from novasched.rpc.server import answered
from novasched_lab.conductor.build import Asked, BuildTask
from novasched_lab.conductor.context import ConductorContext
from novasched_lab.conductor.move import MigrationTask
from novasched_lab.conductor.reschedule import RescheduleTask
from novasched_lab.rpc_api import TASK_TARGET, BuildRequest

Kind = TypeVar('Kind')

PASSED_ON = (
    'image',
    'admin_password',
    'injected_files',
    'requested_networks',
    'security_groups',
    'block_device_mapping',
)
"""Arguments of the API that only a hypervisor looks at: they go on as they came."""


class TaskEndpoint:
    """Instances built and moved. Nova: conductor/manager.py, ComputeTaskManager."""

    target = TASK_TARGET

    def __init__(self, conductor: ConductorContext) -> None:
        self._conductor = conductor

    @answered
    def schedule_and_build_instances(
        self, context: RequestContext, **arguments: Any
    ) -> None:
        """Place new instances, and have them built; see BuildTask.run."""
        builds = _objects(arguments, 'build_requests', BuildRequest, context)
        specs = _objects(arguments, 'request_specs', RequestSpec, context)
        if not builds or len(builds) != len(specs):
            raise errors.InvalidRequest('each build request needs a request spec')
        asked = [
            Asked(build.instance, spec)
            for build, spec in zip(builds, specs, strict=True)
        ]
        BuildTask(self._conductor, context, _passed_on(arguments)).run(asked)

    @answered
    def build_instances(self, context: RequestContext, **arguments: Any) -> None:
        """Try instances on the next of their hosts; see RescheduleTask.run."""
        instances = _objects(arguments, 'instances', Instance, context)
        request = _request(arguments, context)
        properties = decode(arguments.get('filter_properties') or {}, context)
        lists = decode(arguments.get('host_lists'), context)
        task = RescheduleTask(self._conductor, context, _passed_on(arguments))
        if request is None:
            raise errors.InvalidRequest('there is no request_spec')
        for number, instance in enumerate(instances):
            selections = None if lists is None else _selections(lists[number])
            task.run(instance, request, properties, selections)

    @answered
    def migrate_server(self, context: RequestContext, **arguments: Any) -> None:
        """Move an instance to another host, resized or not; see MigrationTask.run."""
        if arguments.get('live') or arguments.get('rebuild'):
            raise errors.InvalidRequest('only cold migration and resize are served')
        (instance,) = _objects(
            {'instance': [arguments.get('instance')]}, 'instance', Instance, context
        )
        flavor = decode(arguments.get('flavor'), context)
        if not isinstance(flavor, Flavor | None):
            raise errors.InvalidRequest('flavor is no Flavor')
        hint = decode(arguments.get('scheduler_hint') or {}, context)
        selections = decode(arguments.get('host_list'), context)
        MigrationTask(self._conductor, context).run(
            instance,
            flavor,
            _request(arguments, context),
            hint.get('filter_properties') or {},
            None if selections is None else _selections(selections),
        )


def _passed_on(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in PASSED_ON if name in arguments}


def _objects(
    arguments: dict[str, Any], name: str, kind: type[Kind], context: RequestContext
) -> list[Kind]:
    found = decode(arguments.get(name), context)
    listed = getattr(found, 'objects', found)
    if not isinstance(listed, list) or not all(isinstance(o, kind) for o in listed):
        raise errors.InvalidRequest(f'{name} is not made of {kind.__name__} objects')
    return listed


def _request(arguments: dict[str, Any], context: RequestContext) -> RequestSpec | None:
    found = decode(arguments.get('request_spec'), context)
    if not isinstance(found, RequestSpec | None):
        raise errors.InvalidRequest('request_spec is not a RequestSpec')
    return found


def _selections(found: Any) -> Sequence[Selection]:
    listed = getattr(found, 'objects', found)
    if not isinstance(listed, list) or not all(
        isinstance(each, Selection) for each in listed
    ):
        raise errors.InvalidRequest('a list of hosts is not made of Selection objects')
    return listed

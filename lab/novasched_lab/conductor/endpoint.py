# SPDX-License-Identifier: Apache-2.0
"""RPC methods of a conductor: arguments decoded, tasks run."""

from __future__ import annotations

from typing import Any

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.rpc.serializer import decode
from novasched.rpc.server import answered
from novasched_lab.conductor.build import Asked, BuildTask, RescheduleTask
from novasched_lab.conductor.context import ConductorContext
from novasched_lab.conductor.move import MigrationTask
from novasched_lab.rpc_api import TASK_TARGET, BuildRequest, decoded, decoded_list

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
        builds = decoded_list(arguments.get('build_requests'), BuildRequest, context)
        specs = decoded_list(arguments.get('request_specs'), RequestSpec, context)
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
        instances = decoded_list(arguments.get('instances'), Instance, context)
        request = decoded(arguments.get('request_spec'), RequestSpec, context)
        properties = decode(arguments.get('filter_properties') or {}, context)
        lists = arguments.get('host_lists')
        task = RescheduleTask(self._conductor, context, _passed_on(arguments))
        for number, instance in enumerate(instances):
            selections = None
            if lists is not None:
                selections = decoded_list(lists[number], Selection, context)
            task.run(instance, request, properties, selections)

    @answered
    def migrate_server(self, context: RequestContext, **arguments: Any) -> None:
        """Move an instance to another host, resized or not; see MigrationTask.run."""
        if arguments.get('live') or arguments.get('rebuild'):
            raise errors.InvalidRequest('only cold migration and resize are served')
        flavor, request = arguments.get('flavor'), arguments.get('request_spec')
        hosts = arguments.get('host_list')
        hint = decode(arguments.get('scheduler_hint') or {}, context)
        MigrationTask(self._conductor, context).run(
            decoded(arguments.get('instance'), Instance, context),
            None if flavor is None else decoded(flavor, Flavor, context),
            None if request is None else decoded(request, RequestSpec, context),
            hint.get('filter_properties') or {},
            None if hosts is None else decoded_list(hosts, Selection, context),
        )


def _passed_on(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in PASSED_ON if name in arguments}

# SPDX-License-Identifier: Apache-2.0
"""A conductor: its RPC methods, made from its configuration, started and stopped."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from novasched import errors
from novasched.cluster.heartbeat import Heartbeat
from novasched.db import engines
from novasched.db.cells import UrlDefaults
from novasched.db.stores import SqlServiceStore
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.placement import session
from novasched.placement.client import PlacementClient
from novasched.ports import ServiceStore
from novasched.process.service import drain_s_of, drained, host_of
from novasched.rpc.serializer import decode
from novasched.rpc.server import answered
from novasched_lab import program, rpc_api
from novasched_lab.allocations import Allocations
from novasched_lab.cells import Brokers, CellLinks
from novasched_lab.conductor.task import ConductorContext
from novasched_lab.conductor.tasks import (
    BuildTask,
    MigrationTask,
    RescheduleTask,
)
from novasched_lab.db.api_servers import ApiServers
from novasched_lab.rpc_api import TASK_TARGET, BuildRequest, decoded, decoded_list
from novasched_lab.scheduler_client import SchedulerClient

LOG = logging.getLogger(__name__)

BINARY = 'nova-conductor'
OPTS: dict[str, list[cfg.Opt]] = {
    'conductor': [
        cfg.IntOpt(
            'workers',
            min=0,
            help='Worker processes of the conductor. Unset or 0: as many as the '
            'machine has CPUs.',
        )
    ],
    'DEFAULT': [
        cfg.BoolOpt(
            'allow_resize_to_same_host',
            default=False,
            help='Whether a resize may end on the host where it began.',
        )
    ],
}


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
        builds = decoded_list(arguments.get('build_requests'), BuildRequest, context)
        specs = decoded_list(arguments.get('request_specs'), RequestSpec, context)
        if not builds or len(builds) != len(specs):
            raise errors.InvalidRequest('each build request needs a request spec')
        instances = [build.instance for build in builds]
        asked = list(zip(instances, specs, strict=True))
        BuildTask(self._conductor, context, _passed_on(arguments)).run(asked)

    @answered
    def build_instances(self, context: RequestContext, **arguments: Any) -> None:
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
        if arguments.get('live') or arguments.get('rebuild'):
            raise errors.InvalidRequest('only cold migration and resize are served')
        flavor, request = arguments.get('flavor'), arguments.get('request_spec')
        MigrationTask(self._conductor, context).run(
            decoded(arguments.get('instance'), Instance, context),
            None if flavor is None else decoded(flavor, Flavor, context),
            None if request is None else decoded(request, RequestSpec, context),
        )


def _passed_on(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in PASSED_ON if name in arguments}


@dataclass(frozen=True)
class ConductorService:
    """A composed conductor; tasks under way get ``drain_s`` to end when it stops."""

    context: ConductorContext
    server: Any
    heartbeat: Heartbeat | None
    drain_s: float
    close: Callable[[], None]

    def start(self) -> None:
        if self.heartbeat is not None:
            self.heartbeat.start()
        self.server.start()

    def stop(self) -> None:
        """Take no more tasks, end those under way, then close all connections."""
        if not drained(self.server, self.drain_s):
            LOG.warning('Tasks are still under way after %d s', self.drain_s)
        if self.heartbeat is not None:
            self.heartbeat.stop()
        self.context.cells.close()
        self.close()


def compose(
    conf: cfg.ConfigOpts,
    api_engine: sa.Engine,
    placement: Adapter,
    brokers: Brokers,
    services: ServiceStore | None = None,
    close: Callable[[], None] = lambda: None,
) -> ConductorService:
    """Wire a conductor; nothing runs yet.

    ``services`` has its services row; None if there is none. The conductor calls
    ``close`` when it stops.
    """
    host = host_of(conf)
    defaults = UrlDefaults(conf.database.connection, brokers.own.conf.transport_url)
    api = ApiServers(api_engine, defaults)
    make_cell_engine = functools.partial(engines.cell_engine, conf)
    context = ConductorContext(
        api=api,
        cells=CellLinks(api, make_cell_engine, brokers.transport),
        schedulers=SchedulerClient(conf, brokers.own),
        placement=PlacementClient(placement),
        allocations=Allocations(placement),
        host=host,
        max_attempts=conf.scheduler.max_attempts,
        resizes_on_same_host=conf.allow_resize_to_same_host,
    )
    heartbeat = None
    if services is not None:
        every_s, topic = conf.report_interval, rpc_api.CONDUCTOR
        heartbeat = Heartbeat(services, host, every_s, binary=BINARY, topic=topic)
    return ConductorService(
        context=context,
        server=rpc_api.server(
            brokers.own, rpc_api.CONDUCTOR, host, [TaskEndpoint(context)]
        ),
        heartbeat=heartbeat,
        drain_s=drain_s_of(conf),
        close=close,
    )


def from_conf(conf: cfg.ConfigOpts) -> ConductorService:
    """Compose a conductor from its configuration alone; nothing connects yet."""
    api_engine, main_engine = engines.api_engine(conf), engines.main_engine(conf)
    placement, brokers = session.from_conf(conf), Brokers(conf)

    def close() -> None:
        brokers.close()
        placement.session.session.close()
        main_engine.dispose()
        api_engine.dispose()

    services = SqlServiceStore(main_engine, new_uuid=program.new_uuid)
    return compose(conf, api_engine, placement, brokers, services, close)

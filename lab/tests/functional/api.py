# SPDX-License-Identifier: Apache-2.0
"""A whole cloud in this process: scheduler, conductor, computes, and the API."""

import contextlib
import functools

from novasched.db import engines, server_tables, tables
from novasched.objects.context import RequestContext
from novasched_lab import opts, rpc_api
from novasched_lab.allocations import Allocations
from novasched_lab.api.service import ApiContext
from novasched_lab.cells import Brokers, CellLinks
from novasched_lab.commands.servers import DeleteServers
from novasched_lab.compute import fleet
from novasched_lab.compute import service as compute
from novasched_lab.conductor import service as conductor
from novasched_lab.db.api_servers import ApiServers, ServerGroups
from novasched_lab.host_inventory import name_uuid
from novasched_lab.resource_providers import held_on, name_of
from tests.unit.commands import played


class Whole:
    """Everything that runs, on an empty cloud of tests.functional.conftest."""

    def __init__(self, cloud, content):
        """Take a cloud without hosts, and what a fleet file says."""
        self.cloud = cloud
        self.conf, self.stack = cloud.conf, cloud.stack
        opts.register(self.conf)
        # Hosts of equal weight come in placement's order, then, in plans too.
        self.conf.set_override('candidates', 'placement', 'novasched')
        with cloud.databases['api'].api.begin() as connection:
            mine = tables.cell_mappings.update().values(transport_url='fake://')
            connection.execute(mine)
        engine = engines.api_engine(self.conf)
        self.stack.callback(engine.dispose)
        self.api = ApiServers(engine)
        self.context = RequestContext(
            user_id='user', project_id='project', overwrite=False
        )
        brokers = Brokers(self.conf, cloud.transport)
        self._run_computes(engine, content)
        make_engine = functools.partial(engines.cell_engine, self.conf)
        self.api.map_new_hosts(make_engine)
        cloud.serve()
        self._run_conductor(engine, brokers)
        cells = CellLinks(self.api, make_engine, brokers.transport)
        self.stack.callback(cells.close)
        self.api_context = ApiContext(
            database=self.api,
            groups=ServerGroups(engine),
            cells=cells,
            conductor=rpc_api.ConductorClient(cloud.transport),
            allocations=Allocations(cloud.adapter),
            provider_name=functools.partial(name_of, cloud.adapter),
        )

    def _run_computes(self, engine, content):
        def site(cell):
            return self.cloud.databases[cell].cell, self.cloud.transport

        self.computes = compute.compose(
            self.conf,
            fleet.fleet_of(content),
            self.cloud.adapter,
            self.cloud.transport,
            site,
            engine,
        )
        self.computes.start()
        self.stack.callback(self.computes.stop)

    def _run_conductor(self, engine, brokers):
        made = conductor.compose(self.conf, engine, self.cloud.adapter, brokers)
        made.start()
        self.stack.callback(made.stop)

    def held(self):
        """Which consumers hold something, on which hosts."""
        found = {}
        for name in self.computes.hosts:
            for consumer in held_on(self.cloud.adapter, name_uuid('node', name)):
                found.setdefault(consumer, set()).add(name)
        return found


def run(whole, kind, *words):
    """Run a command of the cloud; return its exit code, its output, and what it said
    beside."""

    class Here(kind):
        """The command, on the context of the test."""

        def api(self):
            return contextlib.nullcontext(whole.api_context)

    return played.run(Here, '--project-id', 'project', *words)


@contextlib.contextmanager
def emptied(whole):
    """Let a test use a cloud that others share, and take away what it made."""
    yield whole
    code, gone, _ = run(whole, DeleteServers, '--all', '--yes')
    assert code == 0, gone
    with whole.cloud.databases['api'].api.begin() as connection:
        for table in (
            server_tables.instance_group_member,
            server_tables.instance_group_policy,
            server_tables.instance_groups,
        ):
            connection.execute(table.delete())
    if gone:
        assert whole.held() == {}

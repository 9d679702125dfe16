# SPDX-License-Identifier: Apache-2.0
"""A whole cloud in this process: scheduler, conductor, computes, and the API."""

from __future__ import annotations

import functools

from novasched.db import engines, tables
from novasched.db.transactions import Database
from novasched.objects.context import RequestContext
from novasched_lab import opts, wire
from novasched_lab.allocations import Allocations
from novasched_lab.api.providers import Providers
from novasched_lab.api.service import Parts
from novasched_lab.brokers import Brokers
from novasched_lab.cells import Cells
from novasched_lab.compute import fleet, process
from novasched_lab.compute.rows import FleetRows
from novasched_lab.conductor import service as conductor
from novasched_lab.store.server_groups import ServerGroups
from novasched_lab.store.stores import ApiServers, CellServers


class Whole:
    """Everything that runs, on an empty cloud of tests.functional.conftest."""

    def __init__(self, cloud, content):
        """Take a cloud without hosts, and what a fleet file says."""
        self.cloud = cloud
        self.conf, self.stack = cloud.conf, cloud.stack
        opts.register(self.conf)
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
        cells = Cells(self.api, make_engine, brokers.transport)
        self.stack.callback(cells.close)
        self.parts = Parts(
            api=self.api,
            database=Database(engine),
            groups=ServerGroups(engine),
            cells=cells,
            conductor=wire.ConductorClient(cloud.transport),
            allocations=Allocations(cloud.adapter),
            providers=Providers(cloud.adapter),
        )

    def _run_computes(self, engine, content):
        def site(cell):
            made = self.cloud.databases[cell].cell
            client = wire.ComputeClient(self.cloud.transport)
            servers = CellServers(made, cell)
            return process.Site(
                servers, FleetRows(made, cell), self.cloud.transport, client
            )

        given = process.Given(self.cloud.adapter, self.cloud.transport, site, engine)
        self.computes = process.compose(self.conf, fleet.fleet_of(content), given)
        self.computes.start()
        self.stack.callback(self.computes.stop)

    def _run_conductor(self, engine, brokers):
        given = conductor.Given(
            api_engine=engine,
            make_cell_engine=functools.partial(engines.cell_engine, self.conf),
            placement=self.cloud.adapter,
            brokers=brokers,
        )
        made = conductor.compose(self.conf, given)
        made.start()
        self.stack.callback(made.stop)

    def held(self):
        """Which consumers hold something, on which hosts."""
        found = {}
        for name in self.computes.stations:
            url = f'/resource_providers/{fleet.name_uuid("node", name)}/allocations'
            answer = self.cloud.adapter.get(url, microversion='1.36').json()
            for consumer in answer['allocations']:
                found.setdefault(consumer, set()).add(name)
        return found

# SPDX-License-Identifier: Apache-2.0
"""What the API works with: databases in files, a conductor that keeps what it hears."""

from lab.tests.unit.fakes import CELL1_UUID, context
from novasched import errors
from novasched.inspection.session import catalogue
from novasched.placement.allocations import NOTHING, ConsumerAllocations
from novasched_lab.api import boot
from novasched_lab.api.boot import Order
from novasched_lab.api.servers import Servers
from novasched_lab.api.service import ApiContext
from novasched_lab.db.api_servers import ServerGroups


class Conductor:
    """Keeps what it is asked; raises what it is told to."""

    def __init__(self):
        self.asked = []
        self.raises = None

    def schedule_and_build_instances(self, context, builds, requests, image=None):
        self._keep('build', builds, requests, image)

    def migrate_server(self, context, instance, flavor=None, request_spec=None):
        self._keep('move', instance, flavor, request_spec)

    def _keep(self, *what):
        if self.raises is not None:
            raise self.raises
        self.asked.append(what)


class Holdings:
    """What consumers hold, by their uuids; None: placement does not answer."""

    def __init__(self):
        self.held = {}
        self.removed = []

    def held_by(self, context, consumer):
        amounts = self.held.get(consumer, {})
        if amounts is None:
            raise errors.AllocationUpdateFailed(consumer, 'no answer')
        return (
            ConsumerAllocations(amounts, 1, 'project', 'user') if amounts else NOTHING
        )

    def remove(self, context, consumer):
        self.removed.append(consumer)
        return True


class Api:
    """The context, with what a user and a conductor do."""

    def __init__(self, neighbours):
        self.neighbours = neighbours
        self.api, self.cells = neighbours.api, neighbours.cells
        self.cell0, self.cell1 = neighbours.cell0, neighbours.cell1
        self.computes = neighbours.computes
        self.conductor, self.allocations = Conductor(), Holdings()
        self.warnings = []
        self.context = context()
        self.api_context = ApiContext(
            database=self.api,
            groups=ServerGroups(neighbours.databases.api),
            cells=self.cells,
            conductor=self.conductor,
            allocations=self.allocations,
            provider_name=lambda uuid: f'name of {uuid}',
        )
        self.servers = Servers(self.api_context, self.warnings.append)

    def order(self, name='vm', flavor='m1.small', **values):
        """What somebody wants."""
        image = catalogue.image_of('cirros')
        return Order(name, catalogue.flavor_of(flavor), image, **values)

    def boot(self, name='vm', **values):
        """Ask for servers; return their uuids."""
        return list(
            boot.boot(self.api_context, self.context, self.order(name, **values))
        )

    def build(self, uuid, cell=None, cell_uuid=CELL1_UUID, **values):
        """Do what conductor and compute do."""
        ((_, instance),) = self.api.with_builds([uuid])
        cell = cell or self.cell1
        cell.create(instance)
        cell.start_action(self.context, uuid, 'create')
        self.api.map_to_cell(uuid, cell_uuid)
        self.api.delete_build(uuid)
        active = {'host': 'h1', 'node': 'n1', 'vm_state': 'active', 'task_state': None}
        cell.update(uuid, **{**active, **values})

    def running(self, name='vm', **values):
        """Boot a server and let it run; return its uuid."""
        (uuid,) = self.boot(name)
        self.build(uuid, **values)
        return uuid

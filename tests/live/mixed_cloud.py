# SPDX-License-Identifier: Apache-2.0
"""A cloud of three cells on three servers, and how it is asked."""

import time
import uuid

import sqlalchemy as sa

from tests.live.cloud import Cloud, lasting_engine
from tests.live.hosts import compute_node_row, service_row
from tests.live.peer import ANSWER_S, Reply

LATE_S = 5.0
"""By so much a cell that fails may delay a request: a second, on an idle machine. To
connect again and again takes longer."""
BACK_S = 60
NODE = 'node-4'
"""The host of the third cell."""


class MixedCloud(Cloud):
    """A cloud whose cells 1, 2 and 3 have a server each; the URLs of cell1 are
    templates."""

    def build(self, third):
        """Build it, and move a host to the third cell, on a server of its own."""
        self.urls['cell3'] = third.create_database('mixed_nova_cell3')
        self._engines['cell3'] = lasting_engine(self.urls['cell3'])
        super().build()
        conf = self.write_conf(
            self.dir / 'cell3.conf', database={'connection': self.urls['cell3']}
        )
        self.manage(conf, 'db', 'sync', '--local_cell')
        words = ('--name', 'cell3', '--database_connection', self.urls['cell3'])
        transport = ('--transport-url', self.transport_url + 'cell3')
        self.manage(
            self.dir / 'cell0.conf', 'cell_v2', 'create_cell', *words, *transport
        )
        templates = {
            'database_connection': '{scheme}://{username}:{password}@{hostname}:{port}'
            '/mixed_nova_cell1?{query}',
            'transport_url': '{scheme}://{username}:{password}@{hostname}:{port}/',
        }
        self.update('api', 'cell_mappings', templates, name='cell1')
        self.move(NODE, 'cell1', 'cell3')

    def move(self, name, source, target):
        """Map a host to another cell: its rows go there, with new ids. Its old service
        is marked as deleted, as nova does, so that its end is seen at once."""
        services = self.table(source, 'services')
        nodes = self.table(source, 'compute_nodes')
        with self._engines[source].begin() as connection:
            connection.execute(
                sa.update(services)
                .where(services.c.host == name, services.c.deleted == 0)
                .values(deleted=services.c.id, deleted_at=self.now())
            )
            connection.execute(sa.delete(nodes).where(nodes.c.host == name))
        beating = {**service_row(self.hosts[name]), 'uuid': str(uuid.uuid4())}
        self.insert(target, 'services', [beating])
        self.insert(target, 'compute_nodes', [compute_node_row(self.hosts[name])])
        (cell,) = self.rows('api', 'cell_mappings', name=target)
        self.update('api', 'host_mappings', {'cell_id': cell['id']}, host=name)

    def heartbeat(self):
        """Make the hosts beat, and the one of the third cell with them."""
        super().heartbeat()
        if 'cell3' in self._engines:
            values = {'last_seen_up': self.now()}
            self.update('cell3', 'services', values, host=NODE)


def host(asked, claims, **request):
    """The host that is chosen; None: no valid host."""
    uuids, answer = asked.client.submit(**request)
    problem = answer.exception(ANSWER_S)
    if problem is not None and problem.name == 'NoValidHost':
        return None
    reply = Reply(uuids, answer.result())
    claims.expect(reply.uuid)
    return reply.hosts[0]


def timed(call):
    """The answer, and how many seconds it took."""
    started = time.monotonic()
    return call(), time.monotonic() - started

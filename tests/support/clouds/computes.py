# SPDX-License-Identifier: Apache-2.0
"""What makes hosts unfit for a request, written as their computes and operators do."""

from novasched.db import tables
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.support.clouds.fakes import SECOND

FULL = '{"num_instances": "50"}'


class Computes:
    """Writes rows of hosts as their computes and operators do."""

    def __init__(self, made):
        self._made = made

    def _write(self, table, host, **values):
        engine = self._made.databases[self._made.hosts[host].cell].cell
        with engine.begin() as connection:
            connection.execute(
                table.update().where(table.c.host == host).values(values)
            )

    def service(self, host, **values):
        self._write(tables.services, host, **values)

    def node(self, host, **values):
        now = SYSTEM_CLOCK.utcnow().replace(microsecond=0)
        self._write(tables.compute_nodes, host, updated_at=now, **values)

    def disable(self, host):
        self.service(host, disabled=True)

    def force_down(self, host):
        self.service(host, forced_down=True)

    def fall_silent(self, host):
        now = SYSTEM_CLOCK.utcnow()
        self.service(host, last_seen_up=now - 3600 * SECOND)

    def delete_service(self, host):
        self.service(host, deleted=1, deleted_at=SYSTEM_CLOCK.utcnow())

    def delete(self, host):
        self.node(host, deleted=1, deleted_at=SYSTEM_CLOCK.utcnow())

    def fill(self, host):
        self.node(host, stats=FULL, running_vms=50)

    def beat(self, host):
        now = SYSTEM_CLOCK.utcnow()
        self.service(host, last_seen_up=now, report_count=9)
        self.node(host)

    def restore(self, host):
        now = SYSTEM_CLOCK.utcnow()
        self.service(
            host,
            disabled=False,
            forced_down=False,
            last_seen_up=now,
            deleted=0,
            deleted_at=None,
        )
        self.node(host, stats='{}', running_vms=0, deleted=0, deleted_at=None)


UNFIT = (
    Computes.disable,
    Computes.force_down,
    Computes.fall_silent,
    Computes.delete_service,
    Computes.delete,
    Computes.fill,
)

# SPDX-License-Identifier: Apache-2.0
"""A server that stands for Neutron: it has the resources that a test gives it."""

from __future__ import annotations

import contextlib
import threading
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from tests.support.servers.http_servers import HttpServer, JsonHandler


class Asked(NamedTuple):
    """A request that came: who asked, and for what."""

    token: str | None
    path: str


class Neutron(HttpServer):
    """Serves ports, subnets and their segments while the context is entered.

    ``hold`` makes every answer wait until the context is left; ``failing`` is how many
    of the next requests are answered 503.
    """

    def __init__(self):
        super().__init__(_Handler, '/networking')
        self.ports = {}
        self.subnets = []
        self.asked = []
        self.hold = False
        self.failing = 0
        self._leaving = threading.Event()

    def stop(self):
        self._leaving.set()
        super().stop()

    def add_port(self, uuid, vnic_type='normal', network=None, subnet=None):
        ips = [{'subnet_id': subnet, 'ip_address': '10.0.0.7'}] if subnet else []
        self.ports[uuid] = {
            'id': uuid,
            'binding:vnic_type': vnic_type,
            'network_id': network,
            'fixed_ips': ips,
        }

    def add_subnet(self, uuid, network, segment):
        self.subnets.append({'id': uuid, 'network_id': network, 'segment_id': segment})

    def answer(self, token, target):
        """Return status and body for a path and a query."""
        self.asked.append(Asked(token, target.removeprefix('/networking')))
        if self.hold:
            self._leaving.wait()
        if self.failing:
            self.failing -= 1
            return 503, {}
        url = urlsplit(target)
        collection, _, uuid = url.path.removeprefix('/networking/v2.0/').partition('/')
        if collection == 'ports' and uuid in self.ports:
            return 200, {'port': self.ports[uuid]}
        if collection == 'subnets' and not uuid:
            return 200, {'subnets': self._of_network(parse_qs(url.query))}
        for subnet in self.subnets:
            if collection == 'subnets' and subnet['id'] == uuid:
                return 200, {'subnet': subnet}
        return 404, {'NeutronError': {'type': 'NotFound', 'message': uuid}}

    def _of_network(self, query):
        (network,) = query['network_id']
        return [
            {name: subnet[name] for name in query['fields']}
            for subnet in self.subnets
            if subnet['network_id'] == network
        ]


class _Handler(JsonHandler):
    def get(self):
        token = self.headers.get('X-Auth-Token')
        with contextlib.suppress(ConnectionError):
            self.answer(*self.server.service.answer(token, self.path))

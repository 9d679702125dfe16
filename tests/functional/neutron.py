# SPDX-License-Identifier: Apache-2.0
"""A server that stands for Neutron: it has the resources that a test gives it."""

from __future__ import annotations

import http.server
import json
import threading
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit


class Asked(NamedTuple):
    """A request that came: who asked, and for what."""

    token: str | None
    path: str


class Neutron:
    """Serves ports, subnets and their segments while the context is entered.

    ``hold`` makes every answer wait until the context is left; ``failing`` is how many
    of the next requests are answered 503.
    """

    def __init__(self):
        self.ports = {}
        self.subnets = []
        self.asked = []
        self.hold = False
        self.failing = 0
        self._leaving = threading.Event()

    def __enter__(self):
        self._server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), _Handler)
        self._server.neutron = self
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f'http://127.0.0.1:{self._server.server_port}/networking'
        return self

    def __exit__(self, *_):
        self._leaving.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

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


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True  # else a body waits 40 ms behind its headers

    def log_message(self, *_):
        pass

    def do_GET(self):
        token = self.headers.get('X-Auth-Token')
        status, body = self.server.neutron.answer(token, self.path)
        text = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header('Content-Type', 'application/json')
            self.send_header('Content-Length', str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        except ConnectionError:
            self.close_connection = True

# SPDX-License-Identifier: Apache-2.0
"""A memcached of a few lines: what clients need to write and read keys."""

import socketserver
import threading


class Memcached:
    """Serves on a free port of the loopback interface; ``values`` by key hold
    (flags, bytes)."""

    def __init__(self):
        self.values = {}
        owner = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                while line := self.rfile.readline():
                    self.wfile.write(owner._answer(line.split(), self.rfile))

        socketserver.ThreadingTCPServer.daemon_threads = True
        self._server = socketserver.ThreadingTCPServer(('127.0.0.1', 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self):
        """What options of servers take."""
        return f'127.0.0.1:{self._server.server_address[1]}'

    def start(self):
        self._thread.start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, words, body):
        command, *rest = words
        if command in (b'get', b'gets'):
            return b''.join(map(self._value, rest)) + b'END\r\n'
        if command == b'set':
            key, flags, _, size, *quiet = rest
            self.values[key.decode()] = (int(flags), body.read(int(size) + 2)[:-2])
            return b'' if quiet else b'STORED\r\n'
        return b'VERSION 1.6\r\n' if command == b'version' else b'ERROR\r\n'

    def _value(self, key):
        found = self.values.get(key.decode())
        if found is None:
            return b''
        flags, value = found
        return b'VALUE %s %d %d\r\n%s\r\n' % (key, flags, len(value), value)

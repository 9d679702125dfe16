# SPDX-License-Identifier: Apache-2.0
"""A TCP relay on a port of its own, whose target can be changed and cut off."""

import contextlib
import socket
import threading

CONNECT_S = 5
CHUNK = 65536


class Relay:
    """Passes every connection on to the port that it is turned to."""

    def __init__(self, target_port):
        self._target_port = target_port
        self._listener = socket.create_server(('127.0.0.1', 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open = set()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def start(self):
        """Pass on from now on."""
        self._thread.start()

    def turn_to(self, target_port):
        """Cut what is open, and pass new connections on to another port."""
        self._target_port = target_port
        self._cut()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                address = ('127.0.0.1', self._target_port)
                server = socket.create_connection(address, CONNECT_S)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                self._open |= {client, server}
            for source, sink in ((client, server), (server, client)):
                arguments = (source, sink)
                threading.Thread(target=self._pump, args=arguments, daemon=True).start()

    def _pump(self, source, sink):
        with contextlib.suppress(OSError):
            while chunk := source.recv(CHUNK):
                sink.sendall(chunk)
        for each in (source, sink):
            _end(each)
        with self._lock:
            self._open -= {source}
        source.close()

    def _cut(self):
        with self._lock:
            connections = list(self._open)
        for each in connections:
            _end(each)

    def stop(self):
        """Pass nothing on any more."""
        _end(self._listener)
        self._listener.close()
        self._cut()
        self._thread.join(5)


def _end(connection):
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)

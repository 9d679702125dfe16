# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy in front of a database server that refuses, cuts or holds connections."""

import contextlib
import socket
import threading

CHUNK = 65536


class TcpGate:
    """Passes everything on to a port of this machine, until it is told otherwise."""

    def __init__(self, target_port):
        self._target_port = target_port
        self._lock = threading.Lock()
        self._open = set()
        self._listener = None
        self._words, self._cuts = b'', 0
        self._passing = threading.Event()
        self._passing.set()
        self.port = self._listen(0)

    def url(self, url):
        """The URL of a database, by way of this gate."""
        return url.replace(f':{self._target_port}/', f':{self.port}/')

    def refuse(self):
        """Cut all connections, and refuse new ones."""
        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            _end(listener)
        self.cut()

    def allow(self):
        """Take connections again."""
        self._listen(self.port)

    def cut(self):
        """Cut all connections that are open."""
        with self._lock:
            found, self._open = self._open, set()
        for each in found:
            _end(each)

    def turn_to(self, target_port):
        """Cut what is open, and pass new connections on to another port."""
        self._target_port = target_port
        self.cut()

    def hold(self):
        """Take connections, and keep to itself what is said."""
        self._passing.clear()

    def let_go(self):
        """Pass on what was held, and what comes."""
        self._passing.set()

    def cut_on(self, words, times=1):
        """Cut the connections on which a client next says these words."""
        with self._lock:
            self._words, self._cuts = words, times

    def stop(self):
        """Refuse, for good."""
        self.refuse()
        self.let_go()

    def _listen(self, port):
        listener = socket.create_server(('127.0.0.1', port))
        with self._lock:
            self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener.getsockname()[1]

    def _accept(self, listener):
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = self._connect()
                if server is None:
                    _end(client)
                    continue
                with self._lock:
                    refused = self._listener is not listener
                    self._open |= set() if refused else {client, server}
                if refused:
                    _end(client)
                    _end(server)
                    continue
                for source, sink in ((client, server), (server, client)):
                    arguments = source, sink, source is client
                    threading.Thread(
                        target=self._pass_on, args=arguments, daemon=True
                    ).start()

    def _connect(self):
        """Return a connection to the server; None: it does not listen."""
        with contextlib.suppress(OSError):
            made = socket.create_connection(('127.0.0.1', self._target_port), 10)
            made.settimeout(None)
            return made
        return None

    def _pass_on(self, source, sink, from_client):
        with contextlib.suppress(OSError):
            while said := source.recv(CHUNK):
                if from_client and self._is_cut(said):
                    break
                self._passing.wait()
                sink.sendall(said)
        _end(source)
        _end(sink)

    def _is_cut(self, said):
        with self._lock:
            if not self._cuts or self._words not in said:
                return False
            self._cuts -= 1
            return True


def _end(connection):
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()

# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ node that makes virtual hosts."""

import contextlib
import itertools
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import amqp

from tests.live.servers.process import Process, free_port, listens, wait_until

# Distributions put a wrapper on the path that switches user; the real one is here.
SERVERS = ('/usr/lib/rabbitmq/bin/rabbitmq-server', shutil.which('rabbitmq-server'))
USER = 'live'
PASSWORD = 'broker-secret'
START_S = 90
CONNECT_S = 30
"""Also each step of the handshake may take so long."""


class RabbitMQ:
    """One broker; every daemon under test gets a virtual host of its own."""

    def __init__(self, scratch):
        self.dir = Path(scratch) / 'rabbitmq'
        self.dir.mkdir(parents=True)
        self.port = free_port()
        self._node = f'live{self.port}@localhost'
        self._epmd_port = free_port()
        self._epmd = self._server = None
        self._cookie = secrets.token_hex(8)
        self._numbers = itertools.count(1)

    def start(self):
        """Start epmd and the node; ready when it takes AMQP connections."""
        (self.dir / 'env.conf').touch()
        (self.dir / 'rabbitmq.conf').write_text(
            f'default_user = {USER}\ndefault_pass = {PASSWORD}\n'
        )
        env = self._environment()
        # In the foreground, so that its pid is ours to stop.
        self._epmd = Process(
            ['epmd', '-port', env['ERL_EPMD_PORT'], '-address', '127.0.0.1'],
            self.dir / 'epmd.log',
            env=env,
        )
        wait_until(lambda: listens(self._epmd_port), START_S, 'epmd', self._epmd)
        self.run()

    def run(self):
        """Run the node; after kill(), it has what it had."""
        server = next(path for path in SERVERS if path and os.path.exists(path))
        env = self._environment()
        self._server = Process(
            [server], self.dir / 'console.log', env=env, cwd=self.dir
        )
        wait_until(self._ready, START_S, 'rabbitmq', self._server)

    def _environment(self):
        return {
            'PATH': os.environ['PATH'],
            'HOME': str(self.dir),
            'LANG': 'C.UTF-8',
            'ERL_EPMD_ADDRESS': '127.0.0.1',
            'ERL_EPMD_PORT': str(self._epmd_port),
            'RABBITMQ_NODENAME': self._node,
            'RABBITMQ_NODE_IP_ADDRESS': '127.0.0.1',
            'RABBITMQ_NODE_PORT': str(self.port),
            'RABBITMQ_DIST_PORT': str(free_port()),
            'RABBITMQ_BASE': str(self.dir),
            'RABBITMQ_MNESIA_BASE': str(self.dir / 'mnesia'),
            'RABBITMQ_LOG_BASE': str(self.dir / 'log'),
            'RABBITMQ_PID_FILE': str(self.dir / 'pid'),
            'RABBITMQ_ENABLED_PLUGINS_FILE': str(self.dir / 'enabled_plugins'),
            'RABBITMQ_CONF_ENV_FILE': str(self.dir / 'env.conf'),
            'RABBITMQ_CONFIG_FILE': str(self.dir / 'rabbitmq'),
            'RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS': (
                '+S 2:2 -start_epmd false -kernel inet_dist_use_interface {127,0,0,1}'
                # Four times in this long, each virtual host looks whether it is still
                # there: of many, that keeps a processor busy while nobody asks.
                f' -kernel net_ticktime 3600 -setcookie {self._cookie}'
            ),
        }

    def _ready(self):
        if not listens(self.port):
            return False
        with contextlib.suppress(OSError, amqp.AMQPError), self.connect():
            return True
        return False

    @contextlib.contextmanager
    def connect(self, vhost='/'):
        """Hold an AMQP connection to a virtual host open."""
        connection = amqp.Connection(
            f'127.0.0.1:{self.port}',
            userid=USER,
            password=PASSWORD,
            virtual_host=vhost,
            connect_timeout=CONNECT_S,
        )
        try:
            connection.connect()
            yield connection
            connection.close()
        finally:
            connection.collect()

    def create_vhost(self, **options):
        """Make a virtual host; give its transport URL, with options of the driver."""
        name = f'live-{next(self._numbers)}'
        everything = ', '.join(['<<".*">>'] * 3)
        self._evaluate(
            f'rabbit_vhost:add(<<"{name}">>, <<"{USER}">>),'
            'rabbit_auth_backend_internal:set_permissions('
            f'<<"{USER}">>, <<"{name}">>, {everything}, <<"{USER}">>).'
        )
        words = '&'.join(f'{key}={value}' for key, value in options.items())
        return self.url(name) + (f'?{words}' if words else '')

    def add_user(self, name, password):
        """Make an account without any permission, in the place of one of its name."""
        users, by = 'rabbit_auth_backend_internal', f'<<"{USER}">>'
        self._evaluate(
            f'catch {users}:delete_user(<<"{name}">>, {by}),'
            f'{users}:add_user(<<"{name}">>, <<"{password}">>, {by}).'
        )

    def set_permissions(self, command):
        """Do what a command says: `rabbitmqctl set_permissions -p ...`."""
        words = shlex.split(command)
        assert words[:3] == ['rabbitmqctl', 'set_permissions', '-p'], command
        vhost, name, *patterns = (f'<<"{word}">>' for word in words[3:])
        given = ', '.join([name, vhost, *patterns, f'<<"{USER}">>'])
        self._evaluate(f'rabbit_auth_backend_internal:set_permissions({given}).')

    def listen_tls(self, certificate, key):
        """Take TLS connections, too, from now on; give the port."""
        port = free_port()
        self._evaluate(
            f'ssl:start(), rabbit_networking:start_ssl_listener({{"127.0.0.1", {port},'
            f'auto}}, [{{certfile, "{certificate}"}}, {{keyfile, "{key}"}}], 2).'
        )
        return port

    def messages(self, transport_url):
        """Messages in each queue of a virtual host, also in those that are locked."""
        found = self._of_queues(transport_url, 'messages')
        return {name: int(count) for name, count in found.items()}

    def arguments(self, transport_url):
        """Arguments of each queue of a virtual host, as Erlang writes them."""
        return self._of_queues(transport_url, 'arguments')

    def _of_queues(self, transport_url, item):
        found = self._evaluate(
            'lists:flatten([io_lib:format("~s ~1000p;", [N, V]) || '
            f'[{{name, {{resource, _, queue, N}}}}, {{{item}, V}}] <- rabbit_amqqueue:'
            f'info_all(<<"{vhost_of(transport_url)}">>, [name, {item}])]).',
            gives='.*',
        )
        rows = (each.partition(' ') for each in found[1:-1].split(';')[:-1])
        return {name: value for name, _, value in rows}

    def _evaluate(self, expression, gives='ok'):
        """Have the node evaluate an expression: rabbitmqctl would take seconds."""
        done = subprocess.run(
            ['erl_call', '-sname', self._node, '-c', self._cookie, '-e'],
            env=self._environment(),
            input=f'{expression}\n',
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        found = re.fullmatch(rf'{{ok, ({gives})}}', done.stdout, re.S)
        assert found, done
        return found[1]

    def url(self, vhost='/'):
        """The transport URL of a virtual host."""
        path = '/' if vhost == '/' else f'/{vhost}'
        return f'rabbit://{USER}:{PASSWORD}@127.0.0.1:{self.port}{path}'

    def queue(self, transport_url, name):
        """Count (messages, consumers) of a queue; None when there is no such queue."""
        with self.connect(vhost_of(transport_url)) as connection:
            try:
                found = connection.channel().queue_declare(queue=name, passive=True)
            except amqp.NotFound:
                return None
            return found.message_count, found.consumer_count

    def delete_queue(self, transport_url, name):
        """Delete a queue with its messages, if there is one."""
        with self.connect(vhost_of(transport_url)) as connection:
            connection.channel().queue_delete(name)

    def send(self, number):
        """Send a signal to the Erlang VM; the server is a shell script around it."""
        os.kill(int((self.dir / 'pid').read_text()), number)

    def kill(self):
        """End the node without a chance to tidy."""
        self.send(signal.SIGKILL)
        self._server.kill()

    def stop(self):
        """Stop the node and epmd."""
        if self._server:
            # The Erlang VM ends cleanly on SIGTERM; the shell script around it
            # would call rabbitmqctl, which takes seconds.
            with contextlib.suppress(OSError, ValueError, ProcessLookupError):
                self.send(signal.SIGTERM)
            with contextlib.suppress(AssertionError):
                self._server.wait(20)
            self._server.stop(timeout_s=5)
        if self._epmd:
            self._epmd.stop()


def vhost_of(transport_url):
    """The virtual host that a transport URL of ours names."""
    return transport_url.partition('?')[0].rpartition('/')[2] or '/'

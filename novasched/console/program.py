# SPDX-License-Identifier: Apache-2.0
"""The console as a program, and as an application of a WSGI server."""

from __future__ import annotations

import contextlib
import importlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import flask
from oslo_config import cfg
from oslo_log import log

from novasched import errors, printable
from novasched.console import app, cloud, security, web_server
from novasched.console.cloud import Cloud
from novasched.console.settings import GROUP, LOOPBACK, ConsoleSettings
from novasched.observability.settings import Address
from novasched.process import configuration, guru_meditation, opts
from novasched.rpc import logs

LOG = logging.getLogger(__name__)

NAME = 'novasched-console'
SERVICE = 'nova-scheduler'
DEMO = 'novasched_lab.local.console_demo'
ANY_USER = 'Any user of this machine may look.'

Say = Callable[[str], None]


def configure(
    argv: Sequence[str], options: Sequence[cfg.Opt] = (), has_files: bool = True
) -> cfg.ConfigOpts:
    """Read the configuration of nova-scheduler, and set up logging as it does.

    Without files there is no cloud, and nothing but errors is logged. Raises
    oslo_config.cfg.Error and errors.OptionError.
    """
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    conf.register_cli_opts(options)
    opts.register(conf)
    if has_files:
        configuration.read(conf, argv, SERVICE, prog=NAME)
        logs.set_up(conf)
    else:
        conf(list(argv), prog=NAME, default_config_files=[], default_config_dirs=[])
        printable.in_logs()
        logging.basicConfig(level=logging.ERROR)
    return conf


def application(
    reader: Cloud, conf: cfg.ConfigOpts, settings: ConsoleSettings
) -> flask.Flask:
    """Return the console as it may be shown. Raises errors.OptionError."""
    made = app.create(reader)
    if settings.has_keystone:
        from novasched.console import login

        login.wrap(made, conf)
    security.install(made, settings)
    return made


def application_of_cloud() -> flask.Flask:
    """Return the console of the cloud whose nova.conf is found, until the process ends.

    Raises errors.SetupError and oslo_config.cfg.Error.
    """
    conf = configure([])
    stack = contextlib.ExitStack()
    reader = stack.enter_context(cloud.opened(conf))
    # The server listens elsewhere, and where is for it to say.
    settings = ConsoleSettings.from_conf(conf, LOOPBACK)
    return application(reader, conf, settings)


def serve(conf: cfg.ConfigOpts, listen: str | None, is_demo: bool, say: Say) -> None:
    """Serve the console until SIGTERM or SIGINT.

    Raises errors.SetupError and errors.StoreFailed.
    """
    settings = ConsoleSettings.from_conf(conf, listen)
    opened: list[Cloud] = []

    def health() -> Mapping[str, Any]:
        return opened[0].health() if opened else {'status': 'starting'}

    # At first: until then SIGUSR2 makes no report.
    guru_meditation.arrange(conf, health, name=NAME, section='Cloud')
    guru_meditation.watch(conf, name=NAME)
    stopped = threading.Event()
    _at_end(signal.default_int_handler)  # a start is broken off
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as stack:
        reader = stack.enter_context(_demo(say) if is_demo else cloud.opened(conf))
        made = application(reader, conf, settings)
        opened.append(reader)
        warn_of_plain_http(settings)
        _at_end(lambda *_: stopped.set())
        address = stack.enter_context(web_server.served(made, settings))
        for line in where(address, settings):
            say(line)
        stopped.wait()


def _at_end(handler: Callable[..., object]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)


def warn_of_plain_http(settings: ConsoleSettings) -> None:
    """Log a warning if passwords for keystone would cross a network unencrypted."""
    has_tls = bool(settings.tls_certificate)
    if settings.has_keystone and not has_tls and not settings.listen.path:
        LOG.warning(
            'Passwords and tokens reach %s unencrypted, and browsers may drop the '
            'cookie of a login. Set [%s] tls_certificate, or put a proxy that does '
            'TLS in front',
            settings.listen,
            GROUP,
        )


def where(address: Address, settings: ConsoleSettings) -> Iterator[str]:
    """Yield the lines printed for the operator at the start."""
    scheme = 'https' if settings.tls_certificate else 'http'
    if address.path:
        port = 9109
        yield f'The console is at {address}. To look at it from elsewhere:'
        yield f'    ssh -L {port}:{address.path} {socket.gethostname()}'
        yield f'and open {scheme}://localhost:{port} there.'
        return
    host = f'[{address.host}]' if ':' in address.host else address.host
    yield f'The console is at {scheme}://{host}:{address.port}'
    if not settings.has_keystone:
        yield ANY_USER


def _demo(say: Say) -> contextlib.AbstractContextManager[Cloud]:
    """Return the reader of a cloud that the lab makes. Raises errors.OptionError."""
    try:
        made = importlib.import_module(DEMO)
    except ModuleNotFoundError as problem:
        raise errors.OptionError(
            '--demo', f'{problem.name} is missing', 'Install novasched-lab'
        ) from problem
    opened: contextlib.AbstractContextManager[Cloud] = made.opened(
        progress=lambda text: say(f'{text} ...')
    )
    return opened

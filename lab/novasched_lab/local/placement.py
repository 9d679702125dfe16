# SPDX-License-Identifier: Apache-2.0
"""The real placement service inside this process, on a SQLite file.

For ``novasched demo`` and for every functional test that needs placement::

    with EmbeddedPlacement(tmp_path / 'placement.sqlite') as adapter:
        provide(adapter, [Provider(uuid, 'node1', {'VCPU': Inventory(8)})])
        adapter.get('/allocation_candidates?resources=VCPU:1')

No socket is opened and nothing is patched in keystoneauth or urllib3: the
session of the adapter has a transport that calls placement's WSGI application.
"""

from __future__ import annotations

import contextlib
import io
import socketserver
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from wsgiref import simple_server

import requests
import requests.adapters
import urllib3
import webob  # type: ignore[import-untyped]
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from oslo_config import cfg
from oslo_db.sqlalchemy import enginefacade  # type: ignore[import-untyped]
from placement import conf as placement_conf  # type: ignore[import-untyped]
from placement import db_api, deploy, policy
from placement.db.sqlalchemy import migration  # type: ignore[import-untyped]
from placement.objects import (  # type: ignore[import-untyped]
    resource_class,
    trait,
)

from novasched import errors

URL = 'http://placement.embedded'
_ONE_AT_A_TIME = threading.Lock()


class EmbeddedPlacement:
    """Run placement on the SQLite file ``path`` while the context is entered.

    The adapter may be used from any thread. Requests are answered one by one, as SQLite
    has one writer. Placement keeps its database in a global of the process. So a second
    one of these raises errors.SetupError. The file stays when the context is left.
    """

    application: Any
    """The WSGI application, while the context is entered."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def __enter__(self) -> Adapter:
        if not _ONE_AT_A_TIME.acquire(blocking=False):
            raise errors.SetupError('placement already runs in this process')
        with contextlib.ExitStack() as stack:
            stack.callback(_ONE_AT_A_TIME.release)
            conf = _conf(self._path)
            _use_database(conf, stack)
            migration.create_schema(db_api.get_placement_engine())
            self.application = _OneByOne(deploy.loadapp(conf))
            transport = WsgiTransport(self.application)
            adapter = stack.enter_context(adapter_to(URL, transport))
            self._leave = stack.pop_all()
        return adapter

    def __exit__(self, *unused: object) -> None:
        self._leave.close()


class WsgiTransport(requests.adapters.HTTPAdapter):
    """Answers the requests of a requests session from a WSGI application."""

    def __init__(self, application: Any) -> None:
        super().__init__()
        self._application = application

    def send(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        """Call the application; timeouts, proxies and TLS do not apply."""
        body = request.body
        call = webob.Request.blank(
            request.url,
            method=request.method,
            headers=dict(request.headers),
            body=body.encode() if isinstance(body, str) else body or b'',
        )
        answer = call.get_response(self._application)
        raw = urllib3.HTTPResponse(
            body=io.BytesIO(answer.body),
            headers=answer.headers.items(),
            status=answer.status_int,
            reason=answer.status.partition(' ')[2],
            preload_content=False,
        )
        return self.build_response(request, raw)


class _OneByOne:
    """Lets requests in one after the other, as SQLite has one writer."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._lock = threading.Lock()

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        with self._lock:
            return list(self._application(environ, start_response))


@contextlib.contextmanager
def adapter_to(
    url: str, transport: requests.adapters.BaseAdapter | None = None
) -> Iterator[Adapter]:
    """Open an adapter to a placement that takes the token ``admin``.

    Error statuses do not raise. ``transport`` is for one that has no socket.
    """
    with requests.Session() as session:
        if transport:
            session.trust_env = False
            session.mount(url, transport)
        yield Adapter(
            Session(auth=token_endpoint.Token(url, 'admin'), session=session),
            service_type='placement',
            endpoint_override=url,
            raise_exc=False,
        )


def check(adapter: Adapter) -> None:
    try:
        adapter.get('/')
    except ksa.ClientException as error:
        raise errors.OptionError(
            '--placement', str(error), 'Check that placement runs there.'
        ) from error


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class _Handler(simple_server.WSGIRequestHandler):
    def address_string(self) -> str:
        """Return the address without asking for its name."""
        return str(self.client_address[0])

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing, as the requests come from our own programs."""


@contextlib.contextmanager
def serving(url: str | None, directory: Path) -> Iterator[str]:
    """Return the URL of placement; without one, serve it while the context lasts.

    It takes the token ``admin``. Raises errors.OptionError and errors.SetupError.
    """
    if url is not None:
        with adapter_to(url) as adapter:
            check(adapter)
        yield url
        return
    embedded = EmbeddedPlacement(directory / 'placement.sqlite')
    with embedded:
        server = simple_server.make_server(
            '127.0.0.1', 0, embedded.application, _Server, _Handler
        )
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield f'http://127.0.0.1:{server.server_port}'
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _conf(path: Path) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    placement_conf.register_opts(conf)
    conf.set_override('connection', f'sqlite:///{path}', 'placement_database')
    conf.set_override('sqlite_synchronous', False, 'placement_database')
    conf.set_override('auth_strategy', 'noauth2', 'api')
    # An absolute path that does not exist, so that no policy of /etc is read.
    missing = path.with_name(f'{path.name}.policy.yaml').absolute()
    conf.set_override('policy_file', str(missing), 'oslo_policy')
    conf([], project='placement', default_config_files=[], default_config_dirs=[])
    return conf


def _use_database(conf: cfg.ConfigOpts, stack: contextlib.ExitStack) -> None:
    options = dict(conf.placement_database.items())
    del options['sync_on_startup']
    database = enginefacade.transaction_context()
    database.configure(**options)
    stack.callback(_forget_database)
    stack.callback(db_api.placement_context_manager.patch_factory(database))
    stack.callback(database.dispose_pool)
    _forget_database()


def _forget_database() -> None:
    trait._TRAITS_SYNCED = False
    resource_class._RESOURCE_CLASSES_SYNCED = False
    policy.reset()

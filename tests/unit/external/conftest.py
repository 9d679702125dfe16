# SPDX-License-Identifier: Apache-2.0
"""A network service that gives prepared answers, in the place of the network."""

import pytest
from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from oslo_config import cfg

from novasched.external import network
from novasched.external.network import NetworkClient
from novasched.objects.context import RequestContext
from tests.support.placement.scripted_http import Script

URL = 'http://network.test/networking'
CATALOG = [{'type': 'network', 'endpoints': [{'publicURL': URL, 'region': 'one'}]}]


class NetworkScript(Script):
    """Also knows the tokens, and what is slept between attempts."""

    def __init__(self, answers):
        super().__init__(URL, answers)
        self.slept = []

    @property
    def asked(self):
        """The token and what comes after the endpoint."""
        paths = [each.removeprefix('GET ') for each in super().asked]
        tokens = [headers.get('X-Auth-Token') for headers in self.headers]
        return list(zip(tokens, paths, strict=True))


@pytest.fixture
def scripted():
    """Return a maker of a client and of the script of answers that it gets.

    ``own`` False: the client has no credentials of its own. ``service`` are those for
    the token beside that of a user. ``script.slept`` has the
    seconds that it waited between attempts.
    """
    opened = []

    def make(*answers, own=True, service=None, **options):
        script = NetworkScript(answers)
        auth = token_endpoint.Token(URL, 'own') if own else None
        session = Session(session=script.session(), timeout=60)
        client = NetworkClient(
            Adapter(
                session,
                auth=auth,
                service_type='network',
                interface=['internal', 'public'],
                **options,
            ),
            script.slept.append,
            service,
        )
        opened.append(client)
        return client, script

    yield make
    for client in opened:
        client.close()


@pytest.fixture
def user():
    """The context of a user, who has a token and a catalog."""
    return RequestContext(
        auth_token='users', service_catalog=CATALOG, request_id='req-1', overwrite=False
    )


@pytest.fixture
def nobody():
    """A context without a token."""
    return RequestContext(overwrite=False)


@pytest.fixture
def read_conf(tmp_path):
    """Return a function from the text of a configuration file to what it says."""

    def read(text=''):
        path = tmp_path / 'nova.conf'
        path.write_text(text)
        made = cfg.ConfigOpts()
        for group, opts in network.OPTS.items():
            made.register_opts(opts, group)
        made([], default_config_files=[str(path)], default_config_dirs=[])
        return made

    return read

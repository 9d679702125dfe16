# SPDX-License-Identifier: Apache-2.0
"""Plugin of python-openstackclient: the commands ``openstack scheduler``.

They are the commands of ``novasched``. They ask the console of the service catalog,
with the token of the session.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import exceptions as keystone_errors

from novasched import errors
from novasched.commands.console_client import PARAMETERS, WITHIN_S, Console, Reply
from novasched.runtime import connections

# The names that python-openstackclient reads.
API_NAME = 'scheduler'
API_VERSION_OPTION = 'os_scheduler_api_version'
API_VERSIONS = ('1',)
DEFAULT_API_VERSION = '1'

SERVICE_TYPE = 'scheduler-console'
OPTION, VARIABLE = '--os-scheduler-endpoint', 'OS_SCHEDULER_ENDPOINT'


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the options of the plugin to the program."""
    parser.add_argument(
        OPTION,
        metavar='<url>',
        default=os.environ.get(VARIABLE) or None,
        help=f'ask the console at this URL (default: {VARIABLE}, else the endpoint of '
        f'{SERVICE_TYPE} in the service catalog)',
    )
    return parser


def make_client(instance: Any) -> CatalogConsole:
    """Return the console that the client manager of openstack names."""
    return CatalogConsole(
        adapter.Adapter(
            session=instance.session,
            service_type=SERVICE_TYPE,
            interface=instance.interface,
            region_name=instance.region_name,
            endpoint_override=instance.get_configuration().get('scheduler_endpoint'),
        )
    )


class CatalogConsole(Console):
    """The console of a service catalog, or at the URL that overrides it."""

    option = SERVICE_TYPE
    remedy = 'its keystone does not accept the token of this session'

    def __init__(self, client: adapter.Adapter) -> None:
        self._client = client

    def get(self, target: str) -> Reply:
        try:
            self.where = self._client.get_endpoint() or ''
        except keystone_errors.EndpointNotFound as problem:
            raise self._missing() from problem
        if not self.where:
            raise self._missing()
        try:
            reply = self._client.get(target, raise_exc=False, timeout=WITHIN_S)
        except keystone_errors.ClientException as problem:
            why = connections.reason(problem)
            raise errors.ConsoleFailed(self.where, why) from problem
        parameters = reply.headers.get(PARAMETERS)
        return Reply(reply.status_code, reply.content, parameters)

    def _missing(self) -> errors.OptionError:
        region = self._client.region_name
        return errors.OptionError(
            SERVICE_TYPE,
            f'the service catalog has no {self._client.interface or "public"} endpoint '
            f'of this type{f" in region {region}" if region else ""}',
            f'Create the endpoint with the URL of the console, or give it by {OPTION} '
            f'or {VARIABLE}',
        )

# SPDX-License-Identifier: Apache-2.0
"""A console with a cloud of its own, as a program: ``python -m tests.browser.console``.

It writes the cloud, serves placement beside it, lets a scheduler decide, and then says
the address of the console in a line. It ends with its standard input.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

# First of all: it chooses threads, and the libraries keep to that.
import novasched  # noqa: F401
from novasched.console import app, cloud, security, web_server
from novasched.console.cloud import Cloud
from novasched.console.settings import ConsoleSettings
from novasched.observability.settings import Address
from novasched_lab.local import console_demo
from novasched_lab.local.placement import EmbeddedPlacement, adapter_to
from novasched_lab.local.placement import serving as placement_serving
from tests.browser import clouds, demands, inventory, keystone

LOCAL = Address(host='127.0.0.1', port=0)
PATIENT_S = 60.0
"""On a busy machine an answer may take longer than a client waits as it comes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('directory', type=Path, help='an empty one')
    parser.add_argument('--hosts', type=int, default=16)
    parser.add_argument('--decisions', type=int)
    parser.add_argument('--mark', default='')
    parser.add_argument('--keystone', help='its URL; else nobody is asked who he is')
    parser.add_argument('--demo', action='store_true', help='that of the lab, instead')
    given = parser.parse_args()
    shape = replace(inventory.SHAPES[given.hosts], mark=given.mark)
    if given.decisions is not None:
        shape = replace(shape, decisions=given.decisions)
    logging.basicConfig(level=logging.ERROR)
    with contextlib.ExitStack() as stack:
        if given.demo:
            reader = stack.enter_context(console_demo.opened())
        else:
            reader = stack.enter_context(made(given.directory, shape))
        for each in reader.bulkheads.values():
            each._within_s = PATIENT_S
        asked = keystone_conf(given.directory, given.keystone)
        address = stack.enter_context(served(reader, asked))
        print(f'http://127.0.0.1:{address.port}', flush=True)  # noqa: T201
        sys.stdin.read()


@contextlib.contextmanager
def made(directory: Path, shape: inventory.Shape) -> Iterator[Cloud]:
    """Make a cloud in a directory, and let a scheduler decide; yield its reader."""
    with EmbeddedPlacement(directory / 'placement.sqlite') as adapter:
        for names in ('/resource_classes', '/traits'):
            adapter.get(names, microversion='1.36')
    with contextlib.ExitStack() as stack:
        conf_path = clouds.made(directory, shape)
        place = stack.enter_context(placement_serving(None, directory))
        with conf_path.open('a') as file:
            file.write(clouds.PLACEMENT.format(endpoint=place))
        if shape.decisions:
            demands.decide(conf_path, shape, stack.enter_context(adapter_to(place)))
        yield stack.enter_context(cloud.opened(demands.configured(conf_path)))


def keystone_conf(directory: Path, url: str | None) -> Path | None:
    """Write how tokens are validated; return the file."""
    if url is None:
        return None
    path = directory / 'keystone.conf'
    path.write_text(keystone.CONF.format(url=url))
    return path


@contextlib.contextmanager
def served(reader: Cloud, identity: Path | None = None) -> Iterator[Address]:
    """Serve the console, to those that a keystone knows if there is one; yield where.

    ``identity`` is a configuration file that names it.
    """
    settings = ConsoleSettings(listen=LOCAL, has_keystone=identity is not None)
    application = app.create(reader)
    if identity is not None:
        from novasched.console import login

        login.wrap(application, demands.configured(identity))
    security.install(application, settings)
    with web_server.served(application, settings) as address:
        yield address


@contextlib.contextmanager
def running(*words: str) -> Iterator[str]:
    """Run this program; yield the address of its console."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, '-W', 'ignore', '-m', __spec__.name, directory]
        with subprocess.Popen(
            [*command, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                line = process.stdout.readline().strip()
                assert line.startswith('http'), f'it ended with {process.wait()}'
                yield line
            finally:
                # Browsers keep connections, which it would wait for.
                process.kill()


if __name__ == '__main__':
    main()

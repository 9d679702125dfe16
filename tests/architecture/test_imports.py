# SPDX-License-Identifier: Apache-2.0
"""The import contracts of pyproject.toml are kept."""

import graphlib
import pathlib
import re
import sys

import grimp

from tests.live.servers.process import completed


def test_the_import_contracts_are_kept(root):
    lint_imports = pathlib.Path(sys.executable).with_name('lint-imports')
    run = completed([lint_imports, '--no-cache', '--no-logo'], cwd=root)
    assert run.returncode == 0, run.stdout + run.stderr


EXTRAS = (
    *('eventlet', 'memcache', 'opentelemetry', 'placement', 'psycopg2'),
    *('pymemcache', 'pymysql'),
)
EVERY_MODULE = f"""
import importlib, pkgutil, sys
sys.modules.update(dict.fromkeys({EXTRAS}))
import novasched
for module in pkgutil.walk_packages(novasched.__path__, 'novasched.'):
    importlib.import_module(module.name)
sys.modules['novasched.process.opts'].list_opts()
"""


def test_nothing_imports_what_is_an_extra(root):
    run = completed([sys.executable, '-W', 'ignore', '-c', EVERY_MODULE], cwd=root)
    assert run.returncode == 0, run.stderr


def test_modules_import_each_other_in_no_circle():
    graph = grimp.build_graph('novasched')
    imported = {
        module: graph.find_modules_directly_imported_by(module)
        for module in graph.modules
    }
    graphlib.TopologicalSorter(imported).prepare()


PRIVATE = re.compile(
    r'oslo_messaging[.\w]*\._[a-z]|\._(get_connection|send_reply|get_exchange|executor_cls)\b|'
    r'transport\._driver|_poll_style_listener|_connection_lock'
)
"""Private names of oslo.messaging."""


def test_private_names_of_oslo_messaging_stand_in_one_file(package_files):
    found = {
        str(path)
        for path, text in package_files.items()
        if path.parts[0] == 'novasched' and PRIVATE.search(text)
    }
    assert found == {'novasched/rpc/oslo_internals.py'}

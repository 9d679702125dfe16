# SPDX-License-Identifier: Apache-2.0
"""Each command of nova or its client that we print is known here: a test runs it.

Those that change something are run by tests/live/test_printed_commands.py, but for the
discovery of hosts, which tests/live/test_manage.py compares with our own.
"""

import ast
import re

CHANGE = {
    'nova-manage cell_v2 discover_hosts',
    'nova-manage placement heal_allocations',
    'nova-manage placement sync_aggregates',
    'openstack compute service set',
    'openstack resource provider allocation',
    'openstack resource provider allocation delete',
    'openstack resource provider allocation unset',
    'openstack server migrate',
}
"""`allocation` is followed by `delete` or `unset`, as the claim was made."""
READ = {
    'openstack aggregate list',
    'openstack availability zone list',
    'openstack compute service list',
    'openstack hypervisor list',
    'openstack resource provider allocation show',
}
COMMAND = re.compile(r'\b(?:openstack|nova-manage)(?: [a-z][a-z_0-9]*)+')


def texts(path):
    """Yield the texts of a module that are no docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [
                n.value if isinstance(n, ast.Constant) else '{}' for n in node.values
            ]
            yield ''.join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield '' if id(node) in docstrings else node.value


def test_printed_commands_are_those_that_tests_run(root):
    modules = (root / 'novasched').rglob('*.py')
    printed = {
        command
        for path in modules
        for text in texts(path)
        for command in COMMAND.findall(text)
    }
    assert printed == CHANGE | READ

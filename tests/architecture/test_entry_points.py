# SPDX-License-Identifier: Apache-2.0
"""Built-ins use the plugin door: setup.cfg lists every one, and each loads."""

import importlib
import inspect
import pkgutil

from tests.support.tables.cases import cases


def public_classes(package_name):
    """The concrete public classes that the modules of a package define, by name."""
    package = importlib.import_module(package_name)
    modules = [
        importlib.import_module(f'{package_name}.{module.name}')
        for module in pkgutil.iter_modules(package.__path__)
    ]
    return {
        name: f'{module.__name__}:{name}'
        for module in modules
        for name, cls in inspect.getmembers(module, inspect.isclass)
        if cls.__module__ == module.__name__
        and not name.startswith('_')
        and not inspect.isabstract(cls)
    }


def test_every_entry_point_loads(entry_points):
    for lines in entry_points.values():
        for target in lines.values():
            module, _, attribute = target.partition(':')
            loaded = importlib.import_module(module)
            if attribute:  # openstack loads modules, too
                assert callable(getattr(loaded, attribute)), target


@cases(
    'packages, group, endings',
    (
        'filters',
        (
            'novasched.scheduler.filters',
            'novasched.scheduler.filters.legacy',
            'novasched.external',
        ),
        'novasched.scheduler.filters',
        ('Filter', 'Isolation'),
    ),
    (
        'weighers',
        ('novasched.scheduler.weighers',),
        'novasched.scheduler.weighers',
        ('Weigher',),
    ),
)
def test_every_built_in_is_listed_under_its_own_name(
    entry_points, packages, group, endings
):
    classes = {
        name: target
        for package in packages
        for name, target in public_classes(package).items()
        if name.endswith(endings)
    }
    assert entry_points[group] == classes


def test_the_lists_are_sorted(entry_points):
    for group, lines in entry_points.items():
        if group not in ('console_scripts', 'novasched.cli'):  # of two distributions
            assert list(lines) == sorted(lines, key=str.lower), group

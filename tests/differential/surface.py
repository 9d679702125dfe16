# SPDX-License-Identifier: Apache-2.0
"""What a plugin sees of objects, in words that can be compared; runs on both sides.

Nothing of nova or novasched is imported here. ``described`` walks from the roots, a
host and requests, over all public names.
"""

import datetime
import functools
import types
from collections.abc import Mapping, Set

PLAIN = (type(None), bool, int, float, str)
NOWHERE = 'no-such-field'

CALLS = {
    'HostState': {'consume_from_request': None},
    'MonitorMetric': {'to_dict': [()]},
    'MonitorMetricList': {'to_list': [()]},
    'RequestSpec': {
        'get_scheduler_hint': [('one',), ('many',), ('none',), ('none', 'x')],
        'to_legacy_request_spec_dict': [()],
        'to_legacy_filter_properties_dict': [()],
    },
    'Flavor': {'get': [('name',), (NOWHERE,), (NOWHERE, 1)]},
    'ImageMetaProps': {
        'get': [('hw_cpu_policy',), ('os_type',), ('os_type', 1), (NOWHERE,)],
        'to_dict': [()],
    },
    'SchedulerLimits': {'to_dict': [()]},
    'SchedulerRetries': {'to_dict': [()]},
    'RequestGroup': {'to_queryparams': None, 'is_empty': [()]},
    'NUMACell': {'can_fit_pagesize': [(4, 1048576), (2048, 2**40), (1, 1)]},
    'NUMAPagesTopology': {},
    'PciDevicePool': {'to_dict': [()]},
    'VirtCPUTopology': {'to_dict': [()]},
    'NetworkRequest': {'to_tuple': [()]},
    'NetworkRequestList': {'as_tuples': [()]},
    'HVSpec': {'to_list': [()]},
    'InstancePCIRequest': {'is_live_migratable': [()]},
    'InstancePCIRequests': {'to_json': None},
    'CellMapping': {'is_cell0': [()]},
    'InstanceGroup': {'get': [('policy',), (NOWHERE,), (NOWHERE, 1)]},
    'Instance': {'get': [('uuid',), (NOWHERE,), (NOWHERE, 1)]},
    'InstanceNUMACell': {'get': [('memory',), (NOWHERE,), (NOWHERE, 1)]},
}
"""By class and method, the arguments to call it with."""

PROTOCOLS = {
    'bool': bool,
    'len': len,
    'iter': lambda it: sorted(
        each if isinstance(each, str) else type(each).__name__ for each in it
    ),
    'str': str,
    'keys': lambda it: sorted(it.keys()),
    'items': lambda it: sorted(name for name, _ in it.items()),
    'values': lambda it: len(list(it.values())),
    f'in {NOWHERE}': lambda it: NOWHERE in it,
    f'[{NOWHERE}]': lambda it: it[NOWHERE],
    'get': lambda it: it.get(NOWHERE),
    'get default': lambda it: it.get(NOWHERE, 1),
}


class Surface:
    """Collects by path what there is.

    ``kinds`` are names that classes have here, and there; ``names`` are by class those
    to look for though dir() does not list them.
    """

    def __init__(self, kinds=None, names=None):
        self.found = {}
        self._kinds = kinds or {}
        self._names = names or {}

    def walk(self, path, thing):
        """Describe an object, and the objects in it."""
        kind = self.kind(thing)
        names = {*dir(thing), *self._names.get(kind, ())}
        names = sorted(name for name in names if not name.startswith('_'))
        for name in names:
            self._see(f'{path}:{kind}', name, thing)
        for name, ask in PROTOCOLS.items():
            self._put(f'{path}:{kind}', name, lambda a=ask: a(thing))
        fields = [*getattr(thing, 'fields', ())]
        for name in fields:
            self._put(f'{path}:{kind}', f'in {name}', lambda n=name: n in thing)
            if hasattr(type(thing), '__getitem__') and 'objects' not in fields:
                self._put(f'{path}:{kind}', f'[{name}]', lambda n=name: thing[n])

    def ask_for_devices(self, name, host, request):
        """Whether the devices of a request are free, and one that the host has."""
        requests = list(request.pci_requests.requests)
        for spec in ('v', 'w'):
            for one in requests:
                one.spec, one.count = [{'vendor_id': spec}], 2
            for given in ((requests, {}), (requests, {}, host.numa_topology.cells[1:])):
                ask = functools.partial(host.pci_stats.support_requests, *given)
                call = f'support_requests({name}, {spec}, {len(given)})'
                self._put('devices:PciDeviceStats', call, ask)

    def _see(self, path, name, thing):
        kind = path.rpartition(':')[2]
        try:
            value = getattr(thing, name)
        except Exception as problem:  # noqa: BLE001
            self.found[f'{path}.{name}'] = error(problem)
            return
        if not isinstance(
            value, types.MethodType | types.FunctionType | types.BuiltinMethodType
        ):
            if not name.startswith(('obj_', 'OBJ_')) and name not in SKIPPED:
                self._put(path, name, lambda: value)
            return
        self.found[f'{path}.{name}'] = 'method'
        for arguments in CALLS.get(kind, {}).get(name) or ():
            self._put(path, f'{name}{arguments}', lambda a=arguments: value(*a))

    def _put(self, path, name, ask):
        key = f'{path}.{name}' if name[0] not in '[' else f'{path}{name}'
        try:
            self.found[key] = self.describe(ask(), f'{path.rpartition(":")[0]}.{name}')
        except Exception as problem:  # noqa: BLE001
            self.found[key] = error(problem)

    def kind(self, thing):
        """The name of a class, as nova has it."""
        name = type(thing).__name__
        return self._kinds.get(name, name)

    def describe(self, value, path):
        """A value as a plugin uses it; objects are walked once for each path."""
        if isinstance(value, PLAIN):
            return [type(value).__name__, value]
        if isinstance(value, datetime.datetime):
            return ['datetime', value.isoformat()]
        if isinstance(value, Mapping) and not hasattr(value, 'fields'):
            return [
                'dict',
                {str(k): self.describe(v, f'{path}[{k}]') for k, v in value.items()},
            ]
        if isinstance(value, Set):
            return ['set', sorted(map(str, value))]
        if isinstance(value, list | tuple) and not hasattr(value, '_fields'):
            return [
                'list',
                [self.describe(v, f'{path}[{n}]') for n, v in enumerate(value)],
            ]
        kind = self.kind(value)
        if kind == 'IPAddress':
            return ['ip', str(value)]
        if (
            '.objects' not in path
            and '(' not in path
            and '.instances[' not in path.rpartition('.')[0]
        ):
            if f'{path}:{kind}.bool' not in self.found:
                self.walk(path, value)
            if hasattr(value, 'objects'):
                for number, each in enumerate(value):
                    self.describe(each, f'{path}[{number}]')
        return ['object', kind]


SKIPPED = ('fields', 'VERSION', 'child_versions', 'indirection_api')


def error(problem):
    """What was raised, by all the names that an except clause may have for it."""
    bases = type(problem).__mro__
    return ['raises', [each.__name__ for each in bases if each is not object]]

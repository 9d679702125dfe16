# SPDX-License-Identifier: Apache-2.0
"""Decide by a plugin that uses nova, in an environment with both; the peer's Python.

``beside_nova.py nova|novasched FILE`` prints the hosts that pass, by the configuration
file, for each of the requests on its standard input.
"""

import json
import os
import pathlib
import sys
import warnings

warnings.simplefilter('ignore')
os.environ['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = '1'
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))


def passed_by_nova(path, primitives):
    """Yield the hosts that pass under nova-scheduler's host manager."""
    from nova import config, context, objects
    from nova.scheduler import host_manager

    config.parse_args(['nova-scheduler', '--config-file', path])
    objects.register_all()
    manager = host_manager.HostManager()
    user = context.RequestContext('user', 'project')
    for primitive in primitives:
        request = objects.RequestSpec.obj_from_primitive(primitive, user)
        admin = user.elevated()
        found = manager.get_host_states_by_uuids(admin, None, request)
        yield [host.host for host in manager.get_filtered_hosts(found, request)]


def passed_by_novasched(path, primitives):
    """Yield the hosts that pass in a decision of ours."""
    import random

    from oslo_config import cfg

    from novasched import plugins
    from novasched.objects.base import NovaObject
    from novasched.objects.context import RequestContext
    from novasched.process import opts
    from novasched.scheduler.pipeline import decide
    from tests.differential.surface_hosts import hosts_by

    conf = cfg.CONF
    opts.register(conf)
    conf(['--config-file', path], project='nova')
    assert not any(name.partition('.')[0] == 'nova' for name in sys.modules)
    profile = plugins.profile_from_conf(conf)
    user = RequestContext('user', 'project')
    for primitive in primitives:
        request = NovaObject.obj_from_primitive(primitive, user)
        with hosts_by(conf) as hosts:
            decision = decide(profile, hosts, request, random.Random(1))
            yield decision.ranked.host.tolist()


if __name__ == '__main__':
    passed = passed_by_nova if sys.argv[1] == 'nova' else passed_by_novasched
    found = list(passed(sys.argv[2], json.load(sys.stdin)))
    sys.stdout.write(json.dumps(found))

# SPDX-License-Identifier: Apache-2.0
"""A decision by the two plugins, printed as JSON."""

import json
import random
import sys

from oslo_config import cfg

from novasched import plugins
from novasched.process import opts
from novasched.scheduler.pipeline import decide
from tests.support.clouds import factories

QUIET, SPARE = 'quiet_weight_multiplier', 'spare_ram_mb'
LIMITS_MB = {'h2': 7168, 'h3': 7168, 'h4': 2048, 'h5': 7168}
FUNNEL = ['SpareRamFilter: (start: 5, end: 4)']
RANKED = ['h5', 'h3', 'h2', 'h4']


def decision(path):
    """Decide as the configuration file says."""
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf(['--config-file', str(path)], project='nova')
    profile = plugins.profile_from_conf(conf)
    hosts = factories.hosts(
        free_ram_mb=[1000, 8192, 8192, 2048, 8192],
        num_io_ops=[0, 4, 2, 10, 2],
        aggregates=[
            (),
            (),
            (),
            (factories.aggregate(1, **{SPARE: '0'}),),
            (factories.aggregate(2, **{QUIET: '7'}),),
        ],
    )
    request = factories.request(memory_mb=512)
    return decide(profile, hosts, request, random.Random(1))


def shown(found):
    """Return what a test looks at."""
    hosts = found.ranked
    limits = [each['memory_mb'] for each in hosts.limits.tolist()]
    return {
        'funnel': found.funnel(),
        'weighers': [weighing.name for weighing in found.weighed.weighings],
        'ranked': hosts.host.tolist(),
        'limits': dict(zip(hosts.host.tolist(), limits, strict=True)),
    }


if __name__ == '__main__':
    sys.stdout.write(json.dumps(shown(decision(sys.argv[1]))))

# SPDX-License-Identifier: Apache-2.0
"""Configurations of all our options, read from no file."""

from oslo_config import cfg

from novasched.process import opts


def make_conf(**options):
    """Return a configuration: ``make_conf(host='h', scheduler={'workers': 2})``.

    A dict holds the options of a group; everything else is an option of [DEFAULT].
    """
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], project='nova', default_config_files=[], default_config_dirs=[])
    for name, value in options.items():
        if isinstance(value, dict):
            for option, chosen in value.items():
                conf.set_override(option, chosen, name)
        else:
            conf.set_override(name, value)
    return conf

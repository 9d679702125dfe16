# SPDX-License-Identifier: Apache-2.0
"""A tap in a process of its own, which prints what it taps and when.

python tests/faults/tapping.py TRANSPORT_URL HOST LONGEST
"""

import json
import sys
import threading
import time

import oslo_messaging
from oslo_config import cfg

from novasched.rpc import oslo_internals, transport
from novasched.rpc.tap import Tap

NOTIFIED = ('notifications.info', 'versioned_notifications.info')
SAY_EVERY_S = 0.1
_saying = threading.Lock()


def say(kind, *words):
    with _saying:
        sys.stdout.write(json.dumps([kind, *words]) + '\n')
        sys.stdout.flush()


class Printer:
    """A dispatcher that prints the number of each message."""

    def dispatch(self, incoming):
        say('tapped', incoming.message['args'].get('number'))


def main(url, host, longest):
    conf = cfg.ConfigOpts()
    for group, options in transport.OPTS.items():
        conf.register_opts(options, None if group == 'DEFAULT' else group)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override('transport_url', url)
    parsed = oslo_messaging.TransportURL.parse(conf)
    options = oslo_internals.rabbit_options(conf, parsed)
    tap = Tap(
        lambda: transport.as_driven(options, parsed),
        Printer(),
        None,
        host=host,
        exchange=transport.CONTROL_EXCHANGE,
        topic='scheduler',
        notified=NOTIFIED,
        longest=int(longest),
    )
    threading.Thread(target=tap.start, daemon=True).start()  # it waits for a queue
    problem = ''
    while True:
        for interval in tap.intervals():
            say('listened', *interval)
        if tap.problem != problem:
            problem = tap.problem
            say('problem', problem)
        time.sleep(SAY_EVERY_S)


if __name__ == '__main__':
    main(*sys.argv[1:])

# SPDX-License-Identifier: Apache-2.0
"""Records of decisions, as tests make them, and clocks that tests set."""

import itertools

from novasched.decisions.body import body_of
from novasched.decisions.record import DecisionRecord, Head, new_id
from novasched.runtime.typed_json import to_json

NOON = 1_790_000_000
"""A time in seconds since 1970."""
_numbers = itertools.count(1)


def make_record(
    at_s=NOON,
    host='cmp-1',
    uuid=None,
    body=None,
    host_lists=None,
    profiles=None,
    **head,
):
    """Return a record with a place in time, of a server on a host; None: no host."""
    number = next(_numbers)
    values = {
        'result': 'scheduled' if host else 'unschedulable',
        'request_id': f'req-{number}',
        'flavor': 'm1.large',
        'project_id': 'project',
        'candidates': 3,
        'hosts': 10,
        'took_us': 12_000,
        'worker': 'controller-1:42',
        'blocker': '' if host else 'filters',
        'plugin': '' if host else 'RAMFilter',
        'code': '' if host else 'not-enough-ram',
        **head,
    }
    one = Head(id=new_id(at_s, number % (1 << 24)), at=int(at_s * 1e6), **values)
    stored = {
        'servers': [{'uuid': uuid or f'server-{number}', 'host': host}],
        'asked': [{'query': 'resources=VCPU:1', 'candidates': 3}],
        **(body or {}),
    }
    return DecisionRecord(
        one,
        body_of(to_json(body_of(stored))),
        host_lists or {},
        profiles or {},
    )


def write(store, records):
    """Write records to a store in one transaction."""
    made = map(store.encoded, records)
    store.write_encoded([each for each in made if each is not None])


class SetClock:
    """Two clocks that stand until a test sets them."""

    def __init__(self, time_s=float(NOON)):
        self.time_s = time_s
        self.monotonic_s = 1000.0

    def time(self):
        return self.time_s

    def monotonic(self):
        return self.monotonic_s

    def go_on(self, seconds):
        """Let time pass."""
        self.time_s += seconds
        self.monotonic_s += seconds

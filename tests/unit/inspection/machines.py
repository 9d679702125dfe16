# SPDX-License-Identifier: Apache-2.0
"""Machines with a decision log each, asked without a broker."""

import json

from novasched import errors
from novasched.decisions.memory import MemoryDecisions
from novasched.inspection.questions.all_decisions import AllDecisions, OwnLog
from novasched.inspection.questions.schedulers import OtherSchedulers
from novasched.rpc.inspection import InspectionEndpoint
from novasched.rpc.inspection_client import NO_LOG, InspectionReply
from tests.support.records.stored_records import NOON, SetClock, write

CLOCK = SetClock(NOON + 100)


def log_of(records=()):
    """A log with these records."""
    made = MemoryDecisions(clock=CLOCK)
    write(made, list(records))
    return made


class Machines:
    """Schedulers by host: a log, a problem as text, or None for nova-scheduler.

    ``asked`` has the hosts of each question; a test may change ``logs``.
    """

    def __init__(self, **logs):
        self.logs = logs
        self.asked = []
        self.is_open = True

    def ask(self, hosts, method, **arguments):
        self.asked.append(list(hosts))
        for host in hosts:
            yield self._reply(host, method, arguments)

    def _reply(self, host, method, arguments):
        log = self.logs[host]
        if log is None:
            return InspectionReply(host, problem=NO_LOG, has_no_log=True)
        if isinstance(log, str):
            return InspectionReply(host, problem=log)
        endpoint = InspectionEndpoint(log, f'{id(log)}')
        sent = json.loads(json.dumps(arguments))
        found = json.loads(json.dumps(getattr(endpoint, method)({}, **sent)))
        return InspectionReply(host, found['answer'], found['origin'])

    def close(self):
        self.is_open = False


def merged(own=None, clock=CLOCK, **logs):
    """The decisions of this machine, called here, and of others; and the others."""
    machines = Machines(**logs)
    others = OtherSchedulers(lambda: list(logs), lambda: machines, clock)
    log = None if own is None else OwnLog(lambda: 'here', own, f'{id(own)}')
    return AllDecisions(log, others, clock), machines


def raising(problem):
    """A function that raises what a database does."""

    def find_hosts():
        raise errors.StoreFailed('nova at db1', problem)

    return find_hosts

# SPDX-License-Identifier: Apache-2.0
"""Measure what a record of a request costs: CPU milliseconds, and bytes of its body.

Run from the checkout: ``.venv/bin/python -m benchmarks.recording``. ``request`` is what
is done in the thread of the request, ``in all`` is that, and making and encoding the
record in the thread of the log. All hosts are candidates; beside each measurement
stands what is promised. ``success`` has nova's default filters and weighers; ``mixed``
are filters that reject all hosts for several reasons; ``NUMA`` is a guest with
dedicated CPUs for which no host has room, where each of 1,000 hosts is asked why. ``new
hosts``: there is another host than at the record before, so that their names are listed
once more.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from dataclasses import replace

from benchmarks import decide as deciding
from benchmarks import fit
from novasched import errors
from novasched.decisions.encoding import RecordEncoder
from novasched.decisions.fault import FaultText
from novasched.decisions.log import RecordingLog
from novasched.decisions.pending import PendingRecords
from novasched.decisions.record import encode
from novasched.decisions.record_builder import RecordBuilder
from novasched.decisions.recording import RequestRecorder
from novasched.objects.context import RequestContext
from novasched.objects.selection import Selection
from novasched.ports import Candidates, ClaimRequest
from novasched.resources import Requirements, build_query
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.scheduler.pipeline import decide

UUID = 'b0000000-0000-4000-8000-000000000001'
STAGES = 'prefilter', 'query', 'refresh', 'claim', 'notify', 'notify'
PROMISED_MS = {'request': {1000: 0.1, 10000: 0.1}, 'in all': {1000: 0.5, 10000: 1.0}}
PROMISED_BYTES = {1000: 2048, 10000: 4096}
MIXED = {
    'filter_scheduler': {
        'enabled_filters': [
            'ComputeFilter',
            'NumInstancesFilter',
            'IoOpsFilter',
            'AggregateInstanceExtraSpecsFilter',
            'ComputeCapabilitiesFilter',
        ],
        'max_instances_per_host': 14,
        'max_io_ops_per_host': 2,
    }
}
NUMA = {
    'filter_scheduler': {'enabled_filters': ['ComputeFilter', 'NUMATopologyFilter']}
}
WANTS_ARM = {
    'capabilities:cpu_info:arch': 'aarch64',
    'aggregate_instance_extra_specs:fast': 'true',
}


def mixed_hosts(count):
    """Return hosts of which some are in an aggregate that an extra spec asks for."""
    hosts = deciding.table(deciding.cluster(count))
    zones = hosts.aggregates.values
    fast = (*zones[0], deciding.factories.aggregate(9, fast='true'))
    aggregates = replace(hosts.aggregates, values=[fast, *zones[1:]])
    return hosts.with_columns(aggregates=aggregates)


def numa_hosts(count):
    hosts = fit.table([fit.topology(number) for number in range(count)])
    names = [f'compute-{number:06}' for number in range(count)]
    return hosts.with_columns(host=fit.factories.objects(names))


def cases(count):
    """Yield a name, a profile, hosts and a request."""
    plain = deciding.request(deciding.REQUESTS['plain'])
    hosts = deciding.table(deciding.cluster(count))
    yield 'success', deciding.profile({}), hosts, plain
    arm = deciding.request({'extra_specs': WANTS_ARM})
    yield 'mixed', deciding.profile(MIXED), mixed_hosts(count), arm
    guest = fit.request(fit.guest(1, policy='dedicated', vcpus=60))
    yield 'NUMA', deciding.profile(NUMA), numa_hosts(count), guest


class Nowhere:
    """The store of the log, which keeps nothing."""

    encoded = RecordEncoder()

    def write_encoded(self, records, lost=0):
        pass


def tell(recorder, decision, query, answer):
    """Tell a recorder of a request, as manager, driver and claims do."""
    for stage in STAGES:
        with recorder.stage(stage):
            pass
    recorder.prefiltered(decision.request, Requirements())
    recorder.asked(query, answer)
    recorder.decided(decision, 0)
    if not len(decision.ranked):
        recorder.ended(None, errors.NoValidHost(errors.NOT_ENOUGH_HOSTS))
        return
    host = decision.ranked.state(0)
    candidate = {'allocations': {host.uuid: {'resources': {'VCPU': 1}}}}
    recorder.claimed([ClaimRequest(UUID, candidate)], 'claimed', '')
    recorder.picked(host.host, ())
    selection = Selection(
        service_host=host.host,
        nodename=host.nodename,
        cell_uuid=host.cell_uuid,
        compute_node_uuid=host.uuid,
    )
    recorder.ended([[selection]], None)


def cpu_ms(call):
    start = time.thread_time()
    call()
    return (time.thread_time() - start) * 1000


def new_columns(decision):
    """Return the decision over hosts that are other objects than before."""
    column = decision.hosts.snapshot.column('host')
    return replace(decision, hosts=decision.hosts.with_columns(host=column.copy()))


def measured(profile, hosts, request, rounds):
    """Return medians: of the request's thread, in all, with new hosts; and bytes."""
    query = build_query(request, Requirements(), None, 1000, True)
    answer = Candidates(tuple([{}] * len(hosts)), '1.36', {})
    context = RequestContext(overwrite=False)
    decision = decide(profile, hosts, request, random.Random(1))
    builder = RecordBuilder(profile)
    pending = PendingRecords(Nowhere(), lambda outcome, number: None)
    log = RecordingLog(builder, pending, SYSTEM_CLOCK, FaultText(builder))

    def in_the_request():
        tell(log.recorder(context, request, [UUID]), decision, query, answer)

    in_the_request()
    in_request = statistics.median(cpu_ms(in_the_request) for _ in range(rounds))
    log.close()

    def recorded(made):
        told = []
        recorder = RequestRecorder(
            SYSTEM_CLOCK, random.Random(1), context, request, [UUID], told.append
        )
        tell(recorder, made, query, answer)
        return told[0]

    def median_of(change):
        times = []
        for _ in range(rounds):
            told = recorded(change(decision))
            times.append(cpu_ms(lambda t=told: encode(builder.record(t).body)))
        return statistics.median(times)

    body = encode(builder.record(recorded(decision)).body)
    unchanged = median_of(lambda made: made)
    changed = median_of(new_columns)
    return in_request, in_request + unchanged, in_request + changed, len(body)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('--hosts', type=int, nargs='+', default=[1000, 10000])
    parser.add_argument('--rounds', type=int, default=100)
    return parser.parse_args()


def main():
    """Print one line per number of hosts and kind of request."""
    args = arguments()
    print(  # noqa: T201
        f'{"hosts":>6}  {"":8}{"request":>9}{"promised":>9}{"in all":>9}{"promised":>9}'
        f'{"new hosts":>10}{"bytes":>7}{"promised":>9}'
    )
    for count in args.hosts:
        near = min(PROMISED_BYTES, key=lambda known: abs(known - count))
        for name, profile, hosts, request in cases(count):
            request_ms, all_ms, new_ms, size = measured(
                profile, hosts, request, args.rounds
            )
            print(  # noqa: T201
                f'{count:6}  {name:8}{request_ms:9.3f}'
                f'{PROMISED_MS["request"][near]:9.1f}{all_ms:9.3f}'
                f'{PROMISED_MS["in all"][near]:9.1f}{new_ms:10.3f}{size:7}'
                f'{PROMISED_BYTES[near]:9}',
                flush=True,
            )


if __name__ == '__main__':
    sys.exit(main())

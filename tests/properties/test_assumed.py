# SPDX-License-Identifier: Apache-2.0
"""What is assumed and what the rows show are together what is the case."""

from __future__ import annotations

import datetime
import uuid as uuids
from types import SimpleNamespace

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)

from novasched.cluster.assumed import AssumedInstances
from tests.support.clouds import factories
from tests.support.tables.examples import examples

NOON = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC)
TOTAL_MB = 100000
SIZES_MB = st.sampled_from([0, 256, 512, 4096])


class OneHost(RuleBasedStateMachine):
    """A host to which servers come in any order."""

    picks = Bundle('picks')
    servers = Bundle('servers')

    @initialize(target=servers, sizes_mb=SIZES_MB)
    def begin(self, sizes_mb):
        self.seconds = 0.0
        self.expected = {}
        self.on_host = {'first': sizes_mb}
        self.assumed = AssumedInstances(
            clock=SimpleNamespace(monotonic=lambda: self.seconds),
        )
        self.report()
        return 'first'

    def report(self):
        self.seconds += 0.001
        stamp = NOON + datetime.timedelta(seconds=int(self.seconds * 500))
        self.hosts = factories.hosts(
            updated=[stamp],
            free_ram_mb=[TOTAL_MB - sum(self.on_host.values())],
            vcpus_used=[len(self.on_host)],
            num_instances=[len(self.on_host)],
        )

    def see(self):
        return self.assumed.see(lambda: self.hosts)

    @rule(target=picks, memory_mb=SIZES_MB)
    def pick(self, memory_mb):
        sight = self.see()
        name = str(uuids.uuid4())
        request = factories.request(instance_uuid=name, memory_mb=memory_mb)
        made = self.assumed.add(sight.hosts.state(0), sight.base, request, None)
        self.expected[name] = memory_mb
        return made

    @rule(pick=consumes(picks))
    def undo(self, pick):
        self.assumed.remove([pick])
        del self.expected[pick.pick.uuid]

    @rule(target=servers, pick=consumes(picks))
    def come(self, pick):
        uuid = pick.pick.uuid
        self.on_host[uuid] = self.expected.pop(uuid)
        self.report()
        return uuid

    @rule(server=consumes(servers))
    def leave(self, server):
        del self.on_host[server]
        self.report()

    @rule()
    def write_the_row_anew(self):
        self.report()

    @invariant()
    def all_is_seen_once(self):
        if hasattr(self, 'hosts'):
            host = self.see().hosts.state(0)
            servers = {**self.on_host, **self.expected}
            assert host.free_ram_mb == TOTAL_MB - sum(servers.values())
            assert host.num_instances == len(servers)


TestOneHost = OneHost.TestCase
TestOneHost.settings = examples(60, stateful_step_count=30)

# SPDX-License-Identifier: Apache-2.0
"""Each option of a command gives the same JSON of a console and of the databases."""

import json

import pytest

from novasched.commands.capacity import CountCapacity
from novasched.commands.host import ShowHost
from novasched.commands.plan import PlanBoot, PlanDrain, PlanMove
from novasched.commands.why_not import WhyNot
from novasched.db import server_tables, tables
from novasched.decisions.request import summary
from novasched.decisions.writing import DecisionWriter
from novasched.inspection.session import session
from novasched.inspection.session.catalogue import flavor_of
from novasched.inspection.session.server_request import request_spec
from novasched.observability.settings import Address
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.typed_json import to_json
from tests.functional.conftest import Host, named_uuid
from tests.functional.test_capacity import sources
from tests.functional.test_console_client import served
from tests.support.records.stored_records import make_record, write
from tests.unit.commands.played import App, run

SMALL = 'vcpus=1,ram=1024,disk=1'
SEED = ('--seed', '7')
BOOT = ('--flavor', SMALL)
FILE = """
[[flavors]]
name = "own"
vcpus = 2
ram = 512
disk = 1
gold = "a,b=c"

[[images]]
name = "windows"
min_ram = 512
properties = {hw_architecture = "aarch64"}
"""
IN_FILE = ('--flavor', 'own', '--flavor-file', 'FILE')
MOVE = ('web-1',)
DRAIN = ('h1',)
WHY = ('h1', *BOOT)
REQUEST = {
    '--availability-zone': (*BOOT, '--availability-zone', 'az2'),
    '--boot-from-volume': (*BOOT, '--boot-from-volume'),
    '--count': (*BOOT, '--count', '9'),
    '--flavor': BOOT,
    '--flavor-file': IN_FILE,
    '--group': (*BOOT, '--group', 'team', '--project-id', 'owner'),
    '--hint': (*BOOT, '--hint', 'a=b', '--hint', 'a=c'),
    '--image': (*BOOT, '--image', 'hw_architecture=aarch64'),
    '--image-file': (*BOOT, '--image', 'windows', '--image-file', 'FILE'),
    '--like': ('--like', 'DECISION'),
    '--policy': (*BOOT, '--policy', 'anti-affinity', '--count', '9'),
    '--project-id': (*BOOT, '--project-id', 'other'),
    '--seed': (*BOOT, '--seed', '99'),
    '--user-id': (*BOOT, '--user-id', 'other'),
    '--what-if': (*BOOT, '--what-if', 'disable h1', '--what-if', 'enable h2'),
}
OF_PLAN = {
    '--expect': ('--expect', 'p-000000'),
    '--explain': ('--explain',),
    '--long': ('--long',),
    '--seed': ('--seed', '99'),
    '--what-if': ('--what-if', 'enable h2'),
}
CASES = {
    PlanBoot: {
        **REQUEST,
        **{name: (*BOOT, *words) for name, words in OF_PLAN.items()},
        '--host': (*BOOT, '--host', 'h3/x'),
        'a server': ('--like', 'web-1', '--count', '2'),
    },
    PlanMove: {
        **{name: (*MOVE, *words) for name, words in OF_PLAN.items()},
        'SERVER': MOVE,
        '--evacuate': ('web-1', 'web-2', '--evacuate'),
        '--flavor': (*MOVE, '--flavor', SMALL),
        '--flavor-file': (*MOVE, *IN_FILE),
        '--to': (*MOVE, '--to', 'h4'),
    },
    PlanDrain: {
        **{name: (*DRAIN, *words) for name, words in OF_PLAN.items()},
        'HOST': DRAIN,
        '--aggregate': ('--aggregate', 'az1'),
        '--cell': ('--cell', 'cell1'),
        '--evacuate': (*DRAIN, '--evacuate'),
        '--one-of': ('--zone', 'az1', '--one-of'),
        '--zone': ('--zone', 'az1'),
    },
    WhyNot: {
        **{name: ('h1', *words) for name, words in REQUEST.items()},
        'HOST': ('h2', *BOOT),
        '--long': (*WHY, '--long'),
        '--server': ('h4', '--server', 'web-1'),
    },
    CountCapacity: {
        '--by': (*BOOT, '--by', 'host'),
        '--flavor': (*BOOT, *BOOT),
        '--flavor-file': IN_FILE,
        '--fresh': (*BOOT, '--fresh'),
        '--stranded': (*BOOT, '--stranded'),
        '--what-if': (*BOOT, '--what-if', 'enable h2'),
    },
    ShowHost: {
        'HOST': ('h3/x',),
        '--holders': ('h1', '--holders', 'pci'),
        '--long': ('h1', '--long'),
    },
}
EVERYWHERE = {'--help', '--config-file', '--config-dir', '--format', '--console'}
CHANGING = {
    *('as_of', 'placement_age_s', 'heard_from', 'heard_from_s', 'id', 'at', 'took_ms'),
    *('took_us', 'request_id', 'worker', 'stages_ms', 'ms'),
    *('attempt', 'rounds', 'decisions'),  # a console may look again at its hosts
}
"""Fields that two answers to one question never share: times, and random ids."""
RANDOM = {'server', 'servers', 'group', 'uuid'}
"""Fields that name new servers, and their new group."""


@pytest.fixture(scope='module')
def made(module_cloud, tmp_path_factory):
    """A cloud with servers, a group and a decision, and its console at `made.where`."""
    directory = tmp_path_factory.mktemp('options')
    decisions = directory / 'decisions'
    hosts = [
        Host('h1', zone='az1'),
        Host('h2', zone='az1', disabled=True),
        Host('h3/x', zone='az2', cell='cell2', memory_mb=4096),
        Host('h4', zone='az1', memory_mb=2048),
    ]
    made = module_cloud(
        hosts,
        DEFAULT={'service_down_time': 3600},
        novasched={'decisions_dir': str(decisions)},
    )
    for name in ('web-1', 'web-2'):
        add_server(made, name)
    group = {'uuid': named_uuid('team'), 'name': 'team', 'project_id': 'owner'}
    of_group = made.add('api', server_tables.instance_groups, **group)
    policy = {'group_id': of_group, 'policy': 'anti-affinity', 'rules': None}
    made.add('api', server_tables.instance_group_policy, **policy)
    writer = DecisionWriter(decisions)
    now_s = int(SYSTEM_CLOCK.time())
    spec = spec_of(named_uuid('s1'))
    record = make_record(now_s, 'h1', body={'request': to_json(summary(spec))})
    write(writer, [record])
    writer.close()
    made.decision = record.head.id
    made.file = directory / 'catalogue.toml'
    made.file.write_text(FILE)
    made.socket = str(directory / 'console.sock')
    with served(made, Address(path=made.socket)):
        yield made


def spec_of(uuid):
    owner = {'project_id': 'owner', 'user_id': 'owner'}
    return request_spec(uuid, flavor_of(SMALL), {}, **owner)


def add_server(made, name):
    """Write a server of h1, and the request that it was made by."""
    flavor, uuid = flavor_of(SMALL), named_uuid(name)
    row = {'uuid': uuid, 'host': 'h1', 'node': 'h1', 'display_name': name, 'deleted': 0}
    row |= {'vcpus': 1, 'memory_mb': 1024, 'vm_state': 'active', 'project_id': 'owner'}
    made.add('cell1', tables.instances, **row)
    kept = {'cur': flavor.obj_to_primitive(), 'old': None, 'new': None}
    extra = {'instance_uuid': uuid, 'flavor': json.dumps(kept), 'deleted': 0}
    made.add('cell1', server_tables.instance_extra, **extra)
    text = json.dumps(spec_of(uuid).obj_to_primitive())
    made.add('api', server_tables.request_specs, instance_uuid=uuid, spec=text)
    cell = made._cell_ids['cell1']
    mapping = {'instance_uuid': uuid, 'cell_id': cell, 'project_id': 'owner'}
    made.add('api', server_tables.instance_mappings, **mapping)


def steady(answer, is_new=False):
    """Return an answer without what changes; the uuids of new servers do."""
    if isinstance(answer, list):
        return [steady(each, is_new) for each in answer]
    if not isinstance(answer, dict):
        return answer
    changing = CHANGING | (RANDOM if is_new else set())
    return {k: steady(v, is_new) for k, v in answer.items() if k not in changing}


@pytest.mark.parametrize(
    ('kind', 'option'),
    [
        pytest.param(kind, option, id=f'{kind.__name__}-{option}')
        for kind, cases in CASES.items()
        for option in cases
    ],
)
def test_option_gives_the_same_json_of_a_console(made, kind, option):
    class Here(kind):
        """The command, on the cloud of the test."""

        def inspection(self, seed=None, what_if=None):
            return session.opened(
                made.conf, seed=seed, what_if=what_if, sources=sources(made)
            )

    names = {'FILE': str(made.file), 'DECISION': made.decision}
    words = [names.get(each, each) for each in CASES[kind][option]]
    if kind not in (CountCapacity, ShowHost) and option != '--seed':
        words += SEED
    code, own, said = run(Here, *words, app=App())
    answers = run(kind, *words, '--console', made.socket)
    theirs = answers[1]
    assert (answers[0], answers[2]) == (code, said)
    is_new = kind is PlanBoot
    assert steady(theirs, is_new) == steady(own, is_new)
    assert list(theirs) == list(own)


@pytest.mark.parametrize('kind', CASES)
def test_every_option_has_a_case(kind):
    parser = kind(App(), None).get_parser('novasched')
    options = {
        max(each.option_strings, key=len, default=each.metavar)
        for each in parser._actions
    }
    assert options - EVERYWHERE == CASES[kind].keys() - {'a server'}

# SPDX-License-Identifier: Apache-2.0
"""Commands and pages that read placement: by an account for its database, by its API,
and while it is away or refuses."""

from dataclasses import replace

import pytest
import requests
import sqlalchemy as sa

from novasched import errors
from novasched.app import provider_store
from novasched.commands.capacity import CountCapacity
from novasched.commands.host import ShowHost
from novasched.commands.plan import PlanBoot
from novasched.commands.why_not import WhyNot
from novasched.console import app
from novasched.console import cloud as console
from novasched_lab.resource_providers import Inventory, Provider, provide
from tests.functional.commands import run, sources
from tests.functional.conftest import Host, named_uuid, new_uuids

SMALL, LARGE = 'vcpus=1,ram=512,disk=1', 'vcpus=6,ram=512,disk=1'
NO_TRAIT = f'{SMALL},trait:CUSTOM_NONE=required'
CHANGE = ('--what-if', 'disable h2')
COMMANDS = {
    'host': (ShowHost, ('h1',)),
    'plan boot': (PlanBoot, ('--flavor', SMALL)),
    'plan boot, none fits': (PlanBoot, ('--flavor', LARGE)),
    'plan boot --what-if': (PlanBoot, ('--flavor', SMALL, *CHANGE)),
    'why-not': (WhyNot, ('h1', '--flavor', SMALL)),
    'why-not, it does not fit': (WhyNot, ('h1', '--flavor', LARGE)),
    'capacity': (CountCapacity, ('--flavor', SMALL, '--stranded')),
    'capacity --what-if': (CountCapacity, ('--flavor', SMALL, *CHANGE)),
}
UNKNOWN = (
    (PlanBoot, ('--flavor', NO_TRAIT)),
    (PlanBoot, ('--flavor', NO_TRAIT, *CHANGE)),
)
PAGES = ('/hosts/h1', '/hosts', f'/plan?flavor={SMALL}', f'/capacity?flavors={SMALL}')
EACH_ITS_OWN = {'as_of', 'placement_age_s', 'heard_from_s', 'seed', 'server', 'uuid'}
EACH_ITS_OWN |= {'id', 'request_id', 'at', 'stages_ms', 'took_ms', 'ms', 'source'}

BODY = b'{"errors": [{"status": 503, "title": "Busy", "detail": "It hurts.\\n\\n"}]}'


def refused(request, send):
    answer = send()
    answer.close()
    answer.status_code, answer._content = 503, BODY
    return answer


def away(request, send):
    raise requests.ConnectionError('[Errno 111] Connection refused')


FAULTS = {
    'away': (away, 'cannot be reached: connection refused'),
    'refusing': (refused, 'It hurts.'),
}


@pytest.fixture
def made(cloud):
    """A cloud with a device on one host, and a server on each."""
    hosts = [Host('h1', memory_mb=16384), Host('h2')]  # no host is drawn by lot
    made = cloud(hosts, DEFAULT={'state_path': '/nonexistent'})
    inventory, parent = {'VGPU': Inventory(4)}, made.hosts['h1'].uuid
    device = Provider(named_uuid('gpu'), 'h1_gpu', inventory, parent=parent)
    provide(made.adapter, [device])
    for host, consumer, vcpus in zip(made.hosts, new_uuids(2), (3, 4), strict=True):
        made.hold(consumer, **{host: {'VCPU': vcpus}})
    return made


def by(made, source):
    """Sources that read placement by an account, or by the API."""
    found, engine = sources(made), None
    if source == 'account':
        engine = sa.create_engine(f'sqlite:///{made.placement_path}')
        made.stack.callback(engine.dispose)
    providers = provider_store(found.placement, engine)
    return replace(found, providers=providers, keeps_copy=False)


def ask(made, read, command, form='json'):
    kind, words = command
    return run(made, kind, *words, form=form, read=read)


def pages(made, read, root):
    """Return the answer to each page."""
    with console.opened(made.conf, read) as reader:
        client = app.create(reader).test_client()
        return {path: client.get(root + path) for path in PAGES}


def shared(answer):
    """Return an answer without what is of one question alone."""
    if isinstance(answer, dict):
        kept = answer.keys() - EACH_ITS_OWN
        return {name: shared(answer[name]) for name in kept}
    return [shared(each) for each in answer] if isinstance(answer, list) else answer


def answers(made, read):
    """Return the exit code or status of each question, and what it was answered."""
    found = {name: ask(made, read, each)[:2] for name, each in COMMANDS.items()}
    for path, answer in pages(made, read, '/api/v1').items():
        found[path] = answer.status_code, answer.json
    return {name: (code, shared(said)) for name, (code, said) in found.items()}


def test_an_account_and_the_api_answer_the_same(made):
    found = answers(made, by(made, 'account'))
    assert found == answers(made, by(made, 'api'))
    codes = [code for code, _ in found.values()]
    assert codes == [0, 0, 3, 0, 0, 3, 0, 0, 200, 200, 200, 200]
    host = found['host'][1]
    (node,) = host['nodes']
    assert (node['resources']['VCPU']['free'], node['traits']) == (5, ['OWNER_NOVA'])
    assert [list(each['resources']) for each in node['children']] == [['VGPU']]
    assert (host['slots'], host['placement_problems']) == ([], [])


def test_a_trait_that_placement_does_not_know_is_named(made):
    read = by(made, 'api')
    for command in UNKNOWN:
        with pytest.raises(errors.OptionError, match=r'CUSTOM_NONE.*placement knows'):
            ask(made, read, command)
    with console.opened(made.conf, read) as reader:
        answer = app.create(reader).test_client().get(f'/plan?flavor={NO_TRAIT}')
    assert (answer.status_code, 'CUSTOM_NONE' in answer.text) == (400, True)


@pytest.mark.parametrize('fault', FAULTS)
def test_without_placement_what_is_missing_is_named(made, fault):
    do, said = FAULTS[fault]
    for number in range(1, 1000):
        made.faults.on('GET', number, do)
    read = by(made, 'api')
    for name in COMMANDS.keys() - {'host'}:
        with pytest.raises(errors.StoreFailed, match=said) as raised:
            ask(made, read, COMMANDS[name])
        text = str(raised.value)
        assert text.startswith(('Placement at http', 'Placement could not')), name
        assert text.count('Placement ') == 1, name
        assert errors.CONNECTIONS in text
        assert '"detail"' not in text
    code, text, _ = ask(made, read, COMMANDS['host'], 'text')
    assert (code, said in text, errors.CONNECTIONS in text) == (4, True, True)
    assert 'Resources, traits and slots are not shown.' in text
    assert 'Class' not in text
    shown = pages(made, read, '')
    assert [each.status_code for each in shown.values()] == [200, 200, 503, 503]
    assert all(said in each.text for each in shown.values())
    assert 'class="usage"' not in shown['/hosts/h1'].text
    assert 'Not counted: see above why.' in shown['/hosts/h1'].text


def test_an_account_shows_a_host_while_the_api_is_away(made):
    read = by(made, 'account')
    before = ask(made, read, COMMANDS['host'])
    for number in range(1, 1000):
        made.faults.on('GET', number, away)
    after = ask(made, read, COMMANDS['host'])
    assert (after[0], shared(after[1])) == (0, shared(before[1]))

# SPDX-License-Identifier: Apache-2.0
"""Contents of placement read through an API that fails, is slow, or is left alone."""

from __future__ import annotations

import re
import threading

import pytest
import requests

from novasched import errors
from novasched.placement_copy.readers.api import FIRST_SHARE, ApiReader
from novasched.placement_copy.readers.api_requests import CREDIT_S
from tests.support.clouds.fakes import FakeClock
from tests.support.placement.placement_api import CALLS, inventory, says

ERROR = '{"errors": [{"status": 500, "detail": "It hurts."}]}'
NONSENSE = {
    'a fault of placement': (500, ERROR),
    'a gateway': (504, '<html>sorry</html>'),
    'no permission': (403, ERROR),
    'no JSON': (200, '<html>welcome</html>'),
    'a list': (200, []),
    'nothing': (200, {}),
    'null': (200, 'null'),
    'texts': (
        200,
        dict.fromkeys(
            (
                'resource_providers',
                'resource_classes',
                'traits',
                'inventories',
                'usages',
                'aggregates',
                'provider_summaries',
                'resource_provider_generation',
            ),
            'abc',
        ),
    ),
    'silence': requests.ReadTimeout('slow'),
    'nobody there': requests.ConnectTimeout('slow'),
}


@pytest.mark.parametrize('answer', NONSENSE)
@pytest.mark.parametrize('call', ['/resource_providers', *CALLS])
def test_a_bad_answer(world, served, call, answer):
    reader, asked = served
    world.instead[call] = NONSENSE[answer]
    is_unavailable = isinstance(NONSENSE[answer], Exception)
    said = 'cannot be reached: ' if is_unavailable else f'GET {call}: '
    with pytest.raises(errors.StoreFailed, match=re.escape(said)):
        reader.read()
    before = asked()
    world.instead.clear()
    assert says(reader.read()) == world.says()
    kept = {each for each in before if re.search('/(inventories|aggregates)$', each)}
    assert not (kept - {call}).intersection(asked())  # goes on where it ended


@pytest.mark.parametrize(
    ('call', 'spoil'),
    [
        ('h1/inventories', {'inventories': {'VCPU': {'total': 4}}}),
        ('h1/inventories', {'inventories': {'VCPU': inventory('4')}}),
        ('h1/inventories', {'inventories': {'VCPU': inventory(4, None)}}),
        ('h1/inventories', {'resource_provider_generation': None}),
        ('h1/aggregates', {'aggregates': [1]}),
        ('pool/usages', {'usages': {'DISK_GB': 1.5}}),
        ('pool/usages', {'usages': {'DISK_GB': 2**70}}),
        ('pool/traits', {'traits': [['T1']]}),
    ],
)
def test_a_field_that_is_none(world, served, call, spoil):
    uuid, what = call.split('/')
    _, said = world._single(uuid, what)
    world.instead[f'/resource_providers/{call}'] = 200, said | spoil
    with pytest.raises(errors.StoreFailed, match='malformed answer'):
        served[0].read()


def test_suspects_are_read_again_after_a_failure_too(world, served):
    reader, _ = served
    contents = reader.read()
    ids = {uuid: id_ for id_, uuid in contents.uuids.items()}
    call = '/resource_providers/h2/aggregates'
    world.instead[call] = 503, ''
    for _ in range(2):
        with pytest.raises(errors.StoreFailed):
            reader.read_since(contents, False, {ids['h1'], ids['h2']})
        world.providers['h1'].update(aggregates=['a9'])
    world.instead.clear()
    assert says(reader.read_since(contents, False, {ids['h1']})) == world.says()


def test_usage_is_never_of_a_read_that_failed(world, served):
    reader, _ = served
    world.instead['/resource_providers/pool/traits'] = 503, ''
    with pytest.raises(errors.StoreFailed):
        reader.read()
    world.instead.clear()
    world.providers['pool']['used'] = {}
    assert says(reader.read()) == world.says()


def test_a_failed_look_for_changes_loses_nothing(world, served):
    reader, _ = served
    contents = reader.read()
    world.write('h1', used={'VCPU': 5}, traits=['T2'])
    world.providers['pool']['used'] = {}
    world.instead['/resource_providers?member_of=in:a2'] = 503, ''
    with pytest.raises(errors.StoreFailed):
        reader.read_since(contents, include_unversioned=True)
    world.instead.clear()
    world.write('h1', used={'VCPU': 6}, inventories={'VCPU': inventory(9)})
    assert says(reader.read_since(contents, include_unversioned=True)) == world.says()


class FakeEvent:
    """An event that nobody waits for; ``waits`` are the seconds of each."""

    def __init__(self, clock):
        self.clock = clock
        self.waits = []
        self.is_set = False

    def wait(self, seconds):
        self.waits.append(seconds)
        self.clock.advance(seconds)
        return self.is_set

    def set(self):
        self.is_set = True


@pytest.fixture
def slow(world, world_api):
    """A reader of a world that answers after three seconds, its event, the script."""
    adapter, script = world_api
    clock = FakeClock()
    world.takes_s = 3.0
    world.before_answer = lambda path: clock.advance(world.takes_s)
    event = FakeEvent(clock)
    reader = ApiReader(adapter, share=0.1, clock=clock, closed=event)
    return reader, event, script


def test_requests_take_their_share_of_the_time(slow):
    reader, event, script = slow
    event.clock.advance(1000.0)
    contents = reader.read()
    at_once = int(CREDIT_S / (3.0 / FIRST_SHARE - 3.0)) + 1
    assert event.waits[:at_once] == [0] * at_once
    asked = len(script.asked)
    assert event.waits[at_once + 1 :] == pytest.approx([3.0] * (asked - at_once - 1))
    event.waits.clear()
    reader.read_since(contents, include_unversioned=True)
    assert event.waits[1:] == pytest.approx([27.0] * (len(event.waits) - 1))
    event.clock.advance(7.0)
    reader.read_since(contents, include_unversioned=False)
    assert event.waits[-1] == pytest.approx(20.0)


def test_one_silence_does_not_stop_it_for_hours(world, slow):
    reader, event, _ = slow
    world.takes_s = 6000.0
    world.instead['/resource_providers'] = requests.ReadTimeout('slow')
    for _ in range(2):
        with pytest.raises(errors.StoreFailed):
            reader.read()
    assert event.waits == [0, 300.0]


def test_a_closed_reader_asks_nothing(world, slow):
    reader, _, script = slow

    def close(path):
        if path == '/traits':
            reader.close()

    world.before_answer = close
    with pytest.raises(errors.StoreFailed, match='closed'):
        reader.read()
    assert script.asked[-1] == 'GET /traits'
    asked = len(script.asked)
    with pytest.raises(errors.StoreFailed, match='closed'):
        reader.read()
    assert len(script.asked) == asked


def test_a_pause_ends_when_the_reader_is_closed(world, world_api):
    adapter, script = world_api
    reader = ApiReader(adapter, share=1e-9)
    contents = reader.read()
    script.requests.clear()
    world.before_answer = lambda path: threading.Timer(0.05, reader.close).start()
    with pytest.raises(errors.StoreFailed, match='closed'):
        reader.read_since(contents, include_unversioned=True)
    assert len(script.asked) == 1


def test_no_request_waits_for_the_reader(served):
    assert served[0].reads_fast is False
    assert served[0].change_token() is None

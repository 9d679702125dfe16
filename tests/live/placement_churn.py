# SPDX-License-Identifier: Apache-2.0
"""A placement that others change all the time, and pauses in which nobody does."""

import collections
import contextlib
import random
import threading

import requests

from tests.support.placement import placement_worlds as worlds

HOSTS = 12
HOLDING = 12
"""Claims of a writer that stay; further ones replace older ones."""
TOTALS = (4, 8, 12)
TRAITS = ('CUSTOM_GOLD', 'CUSTOM_SILVER', 'COMPUTE_STATUS_DISABLED', 'HW_CPU_X86_VMX')
PAUSE_S = 60
OUTCOMES = {404: 'gone', 409: 'refused', 500: 'failed'}
"""Placement fails where its database sees a deadlock."""


class Turns:
    """Workers that act one step at a time, and can all be stopped between steps."""

    def __init__(self):
        self._may_run = threading.Event()
        self._may_run.set()
        self._ended = threading.Event()
        self._workers = []

    def start(self, step):
        """Call ``step()`` again and again in a thread."""
        lock, failures = threading.Lock(), []

        def run():
            while not self._ended.is_set():
                self._may_run.wait()
                with lock:
                    try:
                        step()
                    except Exception as problem:  # noqa: BLE001 end() raises it
                        failures.append(problem)
                        return

        thread = threading.Thread(target=run, daemon=True)
        self._workers.append((thread, lock, failures))
        thread.start()

    @contextlib.contextmanager
    def pause(self):
        """Let no step be under way."""
        self._may_run.clear()
        with contextlib.ExitStack() as held:
            for _, lock, _ in self._workers:
                assert lock.acquire(timeout=PAUSE_S)
                held.callback(lock.release)
            yield
        self._may_run.set()

    def end(self):
        """Let the workers end; raise what one of them has raised."""
        self._ended.set()
        self._may_run.set()
        for thread, _, failures in self._workers:
            thread.join(PAUSE_S)
            assert not thread.is_alive()
            for problem in failures:
                raise problem


class Churn:
    """Hosts with devices below them, and clients that write to placement.

    A writer is refused now and then, as others write at the same time: ``done`` counts
    what was done, and what was refused. No capacity is made smaller than what is used.
    """

    def __init__(self, url):
        self._url = url
        self._local = threading.local()
        self.done = collections.Counter()
        rng = random.Random(1)
        self.hosts = [self._host(rng) for _ in range(HOSTS)]
        self.devices = [self._device(rng) for _ in range(HOSTS)]

    @staticmethod
    def _host(rng):
        return {
            'uuid': worlds.new_uuid(rng),
            'parent': None,
            'inventories': {'VCPU': {'total': 8}, 'MEMORY_MB': {'total': 4096}},
            'traits': [],
            'aggregates': [rng.choice(worlds.AGGREGATES)],
        }

    def _device(self, rng):
        return {
            'uuid': worlds.new_uuid(rng),
            'parent': rng.choice(self.hosts)['uuid'],
            'inventories': {'CUSTOM_DEVICE': {'total': 2}},
            'traits': [],
            'aggregates': [],
        }

    def build(self):
        """Write the providers."""
        writer = worlds.Writer(self.send)
        writer.names()
        for each in (*self.hosts, *self.devices):
            writer.create(each)

    def send(self, method, path, body=None):
        """Ask placement; return the status and what it says."""
        if not hasattr(self._local, 'session'):
            self._local.session = requests.Session()
        answer = self._local.session.request(
            method,
            f'{self._url}{path}',
            json=body,
            headers={'X-Auth-Token': 'admin', 'Connection': 'close', **worlds.HEADERS},
            timeout=60,
        )
        return answer.status_code, answer.json() if answer.text else None

    def writer(self, number):
        """Return a function that makes one change, at random."""
        rng = random.Random(number)
        held = []
        kinds = {
            self.claim: 8,
            self.release: 3,
            self.move_claim: 2,
            self.resize: 3,
            self.set_traits: 4,
            self.set_aggregates: 2,
            self.move_device: 2,
            self.replace_device: 1,
        }

        def step():
            kind = rng.choices(list(kinds), kinds.values())[0]
            status = kind(rng, held)
            if status is not None:
                outcome = OUTCOMES.get(status, 'done')
                assert outcome != 'done' or status < 300, status
                self.done[f'{kind.__name__}, {outcome}'] += 1

        return step

    # -- changes: they return the status of the last answer, None if there was none

    def claim(self, rng, held):
        """A server comes, in the place of an older one if there are many."""
        if len(held) >= HOLDING:
            self.release(rng, held)
        consumer = worlds.new_uuid(rng)
        status = self._put_claim(rng, consumer, None)
        if status == 204:
            held.append(consumer)
        return status

    def _put_claim(self, rng, consumer, generation):
        place, name, most = rng.choice(
            [(rng.choice(self.hosts), 'VCPU', 3), (rng.choice(self.devices), None, 1)]
        )
        amounts = {name or 'CUSTOM_DEVICE': rng.randint(1, most)}
        body = {
            'allocations': {place['uuid']: {'resources': amounts}},
            'project_id': 'p',
            'user_id': 'u',
            'consumer_generation': generation,
            'consumer_type': 'INSTANCE',
        }
        status, answer = self.send('PUT', f'/allocations/{consumer}', body)
        assert status != 400 or 'does not exist' in str(answer), answer
        return 404 if status == 400 else status

    def release(self, rng, held):
        """A server is deleted; no generation tells."""
        if not held:
            return None
        consumer = held.pop(rng.randrange(len(held)))
        return self.send('DELETE', f'/allocations/{consumer}')[0]

    def move_claim(self, rng, held):
        """A server goes elsewhere; no generation tells of where it was."""
        if not held:
            return None
        consumer = rng.choice(held)
        found = self.send('GET', f'/allocations/{consumer}')[1]
        if 'consumer_generation' not in found:  # of a provider that went just then
            return requests.codes.not_found
        return self._put_claim(rng, consumer, found['consumer_generation'])

    def resize(self, rng, held):
        """A host gets another capacity, and other limits of a request."""
        path = f'/resource_providers/{rng.choice(self.hosts)["uuid"]}'
        usages = self.send('GET', f'{path}/usages')[1]
        found = self.send('GET', f'{path}/inventories')[1]
        used = usages['usages']['VCPU']
        found['inventories']['VCPU'].update(
            total=rng.choice([n for n in TOTALS if n >= used] or [used]),
            max_unit=rng.choice([2, 8, 12]),
        )
        generation = usages['resource_provider_generation']
        body = {**found, 'resource_provider_generation': generation}
        return self.send('PUT', f'{path}/inventories', body)[0]

    def set_traits(self, rng, held):
        """A host is disabled, or gets other traits."""
        path = f'/resource_providers/{rng.choice(self.hosts)["uuid"]}'
        chosen = rng.sample(TRAITS, rng.randint(0, 2))
        return self._put(path, 'traits', chosen)

    def set_aggregates(self, rng, held):
        """A host joins and leaves aggregates."""
        path = f'/resource_providers/{rng.choice(self.hosts)["uuid"]}'
        chosen = rng.sample(worlds.AGGREGATES, rng.randint(0, 2))
        return self._put(path, 'aggregates', chosen)

    def _put(self, path, what, value):
        generation = self._generation(path)
        if generation is None:
            return 404
        body = {'resource_provider_generation': generation, what: value}
        return self.send('PUT', f'{path}/{what}', body)[0]

    def _generation(self, path):
        status, answer = self.send('GET', path)
        return answer['generation'] if status == 200 else None

    def move_device(self, rng, held):
        """A device goes below another host; no generation tells."""
        device, host = rng.choice(self.devices), rng.choice(self.hosts)
        body = {'name': device['uuid'], 'parent_provider_uuid': host['uuid']}
        return self.send('PUT', f'/resource_providers/{device["uuid"]}', body)[0]

    def replace_device(self, rng, held):
        """A device that nobody uses goes, and comes back with another id."""
        device = rng.choice(self.devices)
        path = f'/resource_providers/{device["uuid"]}'
        status, _ = self.send('DELETE', path)
        if status != 204:
            return status
        host = rng.choice(self.hosts)['uuid']
        made = {'uuid': device['uuid'], 'name': device['uuid']}
        made['parent_provider_uuid'] = host
        status, _ = self.send('POST', '/resource_providers', made)
        if status < 300:
            inventories = {'CUSTOM_DEVICE': {'total': 2}}
            return self._put(path, 'inventories', inventories)
        return status

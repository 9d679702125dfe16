# SPDX-License-Identifier: Apache-2.0
"""Placement as operators, computes and other schedulers use it."""

VERSION = '1.36'


class PlacementUser:
    """Reads and writes what placement has; a subclass has `send`."""

    def send(self, method, path, body=None, version=VERSION):
        """Send a request; return the status and the decoded answer, None without."""
        raise AssertionError('a subclass sends')

    def request(self, method, path, body=None, version=VERSION):
        """Send a request; return the decoded answer.

        A status of 400 and more fails with placement's words.
        """
        status, answer = self.send(method, path, body, version)
        assert status < 400, f'{method} {path}: {answer}'
        return answer

    def get(self, path, version=VERSION):
        return self.request('GET', path, version=version)

    def put(self, path, body, version=VERSION):
        return self.request('PUT', path, body, version)

    def change(self, provider, what, value, version=VERSION):
        """Write the inventories, one inventory, the traits or the aggregates."""
        path = f'/resource_providers/{provider}'
        generation = self.get(path)['generation']
        body = value if isinstance(value, dict) and '/' in what else {what: value}
        body = {**body, 'resource_provider_generation': generation}
        return self.put(f'{path}/{what}', body, version)

    def of(self, provider, what):
        """Return the inventories, traits, aggregates or usages of a provider."""
        return self.get(f'/resource_providers/{provider}/{what}')[what]

    def hold(self, consumer, amounts, version=VERSION):
        """Give a consumer amounts by provider, in place of what it holds."""
        held = self.get(f'/allocations/{consumer}')
        body = {
            'allocations': {
                provider: {'resources': part} for provider, part in amounts.items()
            },
            'project_id': 'project',
            'user_id': 'user',
            'consumer_generation': held.get('consumer_generation'),
        }
        self.put(f'/allocations/{consumer}', body, version)

    def allocations(self, consumer):
        """Return what a consumer holds: amounts by class by provider."""
        held = self.get(f'/allocations/{consumer}')['allocations']
        return {provider: part['resources'] for provider, part in held.items()}

    def release(self, consumer):
        """Delete whatever a consumer holds."""
        self.request('DELETE', f'/allocations/{consumer}')


class ByAdapter(PlacementUser):
    """Placement behind an adapter of keystoneauth."""

    def __init__(self, adapter):
        self._adapter = adapter

    def send(self, method, path, body=None, version=VERSION):
        answer = self._adapter.request(
            path, method, json=body, microversion=version, raise_exc=False
        )
        return answer.status_code, answer.json() if answer.text else None

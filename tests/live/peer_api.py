# SPDX-License-Identifier: Apache-2.0
"""What a user and an operator ask of the peer's API, over HTTP."""

import contextlib

import requests

from tests.live.servers.process import wait_until

# The last one in which an evacuated server starts again.
MICROVERSION = '2.90'
IMAGE = '11111111-2222-4333-8444-555555555555'
START_S = 120
WORK_S = 60
EVERY_S = 0.2
"""A look keeps the API busy that is to do the work."""


class PeerApi:
    """A client that is an administrator."""

    def __init__(self, port):
        self._url = f'http://127.0.0.1:{port}'
        self._session = requests.Session()
        self._session.headers.update(
            {
                'X-Auth-Token': 'admin',
                'X-OpenStack-Nova-API-Version': MICROVERSION,
                'OpenStack-API-Version': f'compute {MICROVERSION}',
            }
        )
        self.made = []

    def wait_ready(self, process):
        """Wait until the API answers."""

        def answers():
            with contextlib.suppress(requests.ConnectionError):
                return self._session.get(self._url, timeout=30).status_code < 400
            return False

        wait_until(answers, START_S, 'the API', process)

    def request(self, method, path, body=None):
        """Send a request; give the decoded answer, None without one."""
        answer = self._answer(method, f'{self._url}/v2.1{path}', body)
        assert answer.status_code < 400, f'{method} {path}: {answer.text}'
        return answer.json() if answer.text else None

    def _answer(self, method, url, body):
        """Send it; a GET goes out again if the API had just closed the connection."""
        try:
            return self._session.request(method, url, json=body, timeout=60)
        except requests.ConnectionError:
            if method != 'GET':
                raise
            return self._session.request(method, url, json=body, timeout=60)

    # -- a user

    def add_flavor(self, name, vcpus, ram, disk):
        """Make a flavor that is called by its name."""
        self.request(
            'POST',
            '/flavors',
            {
                'flavor': {
                    'id': name,
                    'name': name,
                    'vcpus': vcpus,
                    'ram': ram,
                    'disk': disk,
                }
            },
        )

    def boot(self, flavor='small', count=1, hints=None, **options):
        """Ask for servers; give their uuids at once."""
        answer = self.request(
            'POST',
            '/servers',
            {
                'server': {
                    'name': 'vm',
                    'imageRef': IMAGE,
                    'flavorRef': flavor,
                    'networks': 'none',
                    'min_count': count,
                    'max_count': count,
                    'return_reservation_id': True,
                    **options,
                },
                'os:scheduler_hints': hints or {},
            },
        )
        reservation = answer['reservation_id']
        found = self.request('GET', f'/servers?reservation_id={reservation}')
        uuids = [server['id'] for server in found['servers']]
        self.made += uuids
        assert len(uuids) == count
        return uuids

    def show(self, uuid):
        """A server as its owner sees it."""
        return self.request('GET', f'/servers/{uuid}')['server']

    def becomes(self, uuid, *statuses):
        """Wait until a server rests in one of the statuses; give it."""

        def there():
            server = self.show(uuid)
            at_rest = server['OS-EXT-STS:task_state'] is None
            return server if at_rest and server['status'] in statuses else None

        return wait_until(
            there, WORK_S, f'{uuid} to become {statuses}', every_s=EVERY_S
        )

    def active(self, uuid):
        """Wait until a server is built or has failed; give it, which must run."""
        server = self.becomes(uuid, 'ACTIVE', 'ERROR')
        assert server['status'] == 'ACTIVE', server['fault']
        return server

    def act(self, uuid, action, arguments=None):
        """Do something to a server."""
        self.request('POST', f'/servers/{uuid}/action', {action: arguments})

    def delete(self, *uuids):
        """Ask for the end of servers and wait for it."""
        for uuid in uuids:
            self.request('DELETE', f'/servers/{uuid}')
        for uuid in uuids:
            wait_until(
                lambda u=uuid: self._is_gone(u),
                WORK_S,
                f'the end of {uuid}',
                every_s=EVERY_S,
            )
            self.made.remove(uuid)

    def _is_gone(self, uuid):
        answer = self._session.get(f'{self._url}/v2.1/servers/{uuid}', timeout=60)
        return answer.status_code == 404

    def delete_all(self):
        """End every server that was asked for here and is still there."""
        self.delete(*self.made)

    # -- an operator

    def set_service(self, host, **values):
        """Change the compute service of a host: `status`, `forced_down`."""
        (service,) = self.services(host=host)
        self.request('PUT', f'/os-services/{service["id"]}', values)

    def services(self, binary='nova-compute', host=None):
        """The services of one kind, of one host or of all."""
        where = f'&host={host}' if host else ''
        answer = self.request('GET', f'/os-services?binary={binary}{where}')
        return answer['services']

    def delete_service(self, binary, host):
        """Take the row of a service away that has ended."""
        (service,) = self.services(binary, host)
        self.request('DELETE', f'/os-services/{service["id"]}')

    def close(self):
        """Drop the connections."""
        self._session.close()

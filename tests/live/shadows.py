# SPDX-License-Identifier: Apache-2.0
"""A shadow beside schedulers of the peer, and servers whose decisions it compares."""

import itertools

from novasched.decisions import history
from novasched.decisions.comparison import Cause, KnownBy, Verdict
from novasched.decisions.reading import DecisionFiles
from novasched.inspection.questions.replay import replay
from tests.live.daemon import own_program
from tests.live.servers.process import completed, wait_until

TAPPED = 'Messages for schedulers are tapped'
KNOWN_S = 80
MOST_AT_ONCE = 12
TRIES = 5
SAME = (Verdict.EQUAL, Verdict.ALIKE)


class Shadow:
    """A shadow, and what it has compared."""

    def __init__(self, cloud, **sections):
        self._cloud = cloud
        directory = cloud.dir / 'decisions'
        own = {
            'shadow': True,
            'decisions_dir': str(directory),
            'mirror_api_share': 1.0,
        }
        self._conf = cloud.write_scheduler_conf('shadow', novasched=own, **sections)
        self._log = DecisionFiles(directory)
        self.start()

    def start(self):
        started = self._cloud.start_scheduler(self._conf, name='shadow')
        wait_until(lambda: TAPPED in started.log, 60, 'it', started)
        self.process = started

    def replayed(self, compared):
        """Make the decision of a server again."""
        return replay(history.decoded(self._log.whole(compared.id)))

    def report(self):
        """The output of `novasched shadow report`."""
        words = ['shadow', 'report', '--config-file', self._conf]
        return completed([own_program('novasched'), *words]).stdout

    def listened(self):
        return self._log.listened(0)

    def of(self, uuids):
        """Return what was compared for servers, the last of each, once it is there."""

        def there():
            rows = reversed([*self._log.compared(0)])
            found = {row.server: row for row in rows if row.server in uuids}
            return found if len(found) == len(uuids) else None

        found = wait_until(there, KNOWN_S, 'comparisons', self.process, every_s=0.3)
        return [found[uuid] for uuid in uuids]


def booted(api, flavor='small', **options):
    """Return a server that is active, at the first try that nova-scheduler does not
    fail: it gives up where placement has closed its connection."""
    for _ in range(TRIES):
        (uuid,) = api.boot(flavor, **options)
        if api.becomes(uuid, 'ACTIVE', 'ERROR')['status'] == 'ACTIVE':
            return uuid
    raise AssertionError('no server is active')


def boot_compared(api, shadow, count):
    """Boot about so many servers, one or three a request, without a pause; return the
    comparisons, each of which is known and has a cause if it differs."""
    counts = itertools.islice(itertools.cycle((1, 1, 3)), count * 3 // 5)
    uuids = [*_boot_and_end(api, counts)]
    for uuid in api.made:
        api.becomes(uuid, 'ACTIVE', 'ERROR')
    compared = shadow.of(uuids)
    failed = [each for each in compared if each.known_by == KnownBy.FAILED]
    assert {each.cause for each in failed} <= {Cause.NO_CANDIDATES}
    assert KnownBy.UNKNOWN not in {each.known_by for each in compared}
    assert Cause.UNKNOWN not in {each.cause for each in compared}
    # Weights may be of another moment where servers come faster than rows.
    same = [each for each in compared if each.verdict in SAME]
    assert len(same) >= len(compared) * 0.6
    others = [each for each in compared if each.verdict not in SAME]
    assert all(shadow.replayed(each).is_equal for each in others)
    return compared


def _boot_and_end(api, counts):
    """Boot so many servers a request, and delete the oldest where too many run; yield
    their uuids."""
    for count in counts:
        yield from api.boot(count=count)
        while len(api.made) > MOST_AT_ONCE:
            api.becomes(api.made[0], 'ACTIVE', 'ERROR')
            api.delete(api.made[0])


def move_compared(api, shadow, count, **options):
    """Boot so many servers with options, and migrate them; each is compared by its new
    host."""
    for _ in range(count):
        uuid = booted(api, **options)
        shadow.of([uuid])
        api.act(uuid, 'migrate')
        api.becomes(uuid, 'VERIFY_RESIZE')
        api.act(uuid, 'confirmResize')
        host = api.active(uuid)['OS-EXT-SRV-ATTR:host']
        wait_until(
            lambda u=uuid, h=host: shadow.of([u])[0].nova == h, KNOWN_S, 'the move'
        )
        (compared,) = shadow.of([uuid])
        assert compared.verdict != Verdict.REJECTED
        assert compared.cause != Cause.UNKNOWN
        api.delete(uuid)

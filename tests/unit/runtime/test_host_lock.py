# SPDX-License-Identifier: Apache-2.0
"""One process has the lock, until it lets go of it or ends."""

import gc
import subprocess
import sys
import uuid

from novasched.runtime.host_lock import HostLock


def test_a_seat_is_kept():
    lock = HostLock(str(uuid.uuid4()))
    assert lock.acquire()
    assert lock.acquire()


def test_a_seat_that_is_taken_is_free_again_when_its_holder_is_gone():
    name = str(uuid.uuid4())
    first, second = HostLock(name), HostLock(name)
    assert first.acquire()
    assert not second.acquire()
    del first
    gc.collect()
    assert second.acquire()


def test_seats_of_other_names_are_free():
    first, second = HostLock(str(uuid.uuid4())), HostLock(str(uuid.uuid4()))
    assert first.acquire()
    assert second.acquire()


def test_the_end_of_a_process_frees_its_seat():
    name = str(uuid.uuid4())
    program = (
        'import sys; from novasched.runtime.host_lock import HostLock; '
        'sys.exit(not HostLock(sys.argv[1]).acquire())'
    )
    assert subprocess.run([sys.executable, '-c', program, name]).returncode == 0
    assert HostLock(name).acquire()

# SPDX-License-Identifier: Apache-2.0
"""One process has the lock, until it lets go of it or ends."""

import gc
import subprocess
import sys
import uuid

from novasched.runtime.periodic import HostLock


def test_lock_is_kept_until_its_holder_is_gone():
    name = str(uuid.uuid4())
    first, second = HostLock(name), HostLock(name)
    assert first.acquire()
    assert first.acquire()
    assert not second.acquire()
    assert HostLock(str(uuid.uuid4())).acquire()
    del first
    gc.collect()
    assert second.acquire()


def test_end_of_a_process_frees_its_lock():
    name = str(uuid.uuid4())
    program = (
        'import sys; from novasched.runtime.periodic import HostLock; '
        'sys.exit(not HostLock(sys.argv[1]).acquire())'
    )
    assert subprocess.run([sys.executable, '-c', program, name]).returncode == 0
    assert HostLock(name).acquire()

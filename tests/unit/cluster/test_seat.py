# SPDX-License-Identifier: Apache-2.0
"""One process has a seat, until it lets go of it or ends."""

from __future__ import annotations

import gc
import subprocess
import sys
import uuid

from novasched.cluster.seat import Seat


def test_a_seat_is_kept():
    seat = Seat(str(uuid.uuid4()))
    assert seat.take()
    assert seat.take()


def test_a_seat_that_is_taken_is_free_again_when_its_holder_is_gone():
    name = str(uuid.uuid4())
    first, second = Seat(name), Seat(name)
    assert first.take()
    assert not second.take()
    del first
    gc.collect()
    assert second.take()


def test_seats_of_other_names_are_free():
    first, second = Seat(str(uuid.uuid4())), Seat(str(uuid.uuid4()))
    assert first.take()
    assert second.take()


def test_the_end_of_a_process_frees_its_seat():
    name = str(uuid.uuid4())
    program = (
        'import sys; from novasched.cluster.seat import Seat; '
        'sys.exit(not Seat(sys.argv[1]).take())'
    )
    assert subprocess.run([sys.executable, '-c', program, name]).returncode == 0
    assert Seat(name).take()

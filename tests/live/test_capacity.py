# SPDX-License-Identifier: Apache-2.0
"""Capacity of a cloud on real servers, of which one may be away."""

import json

import pytest

from tests.live.daemon import own_program
from tests.live.mixed_cloud import timed
from tests.live.servers.process import completed
from tests.live.test_cells import cells, paused, second, start

__all__ = ['cells', 'paused', 'second', 'start']

pytestmark = pytest.mark.ours
RUN_S = 60
LATER_S = 10
TEXT = 'vcpus=6,ram=512,disk=1'


@pytest.fixture
def capacity(cells, tmp_path):
    """Run the command; give its exit code, its answer, and what it said beside."""
    conf = cells.write_conf(tmp_path / 'nova.conf')

    def run(*words):
        done = completed(
            [
                own_program('novasched'),
                'capacity',
                '--flavor',
                TEXT,
                *words,
                '-f',
                'json',
                '--config-file',
                conf,
            ],
            timeout_s=RUN_S,
        )
        said = [line for line in done.stderr.splitlines() if 'warning: ' in line]
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout or '{}'), said

    return run


def by_host(answer):
    return {row['by']: row['slots'] for row in answer['rows'] if row['slots']}


def test_a_cell_that_is_paused_is_named(capacity, paused):
    (code, whole, said), usual_s = timed(lambda: capacity('--by', 'cell'))
    assert (code, said) == (0, [])
    paused()
    (code, answer, said), took_s = timed(lambda: capacity('--by', 'cell'))
    assert code == 4
    assert list(answer['cells_left_out']) == ['cell2']
    assert [line for line in said if 'cell2 does not answer' in line]
    left = {name: n for name, n in by_host(whole).items() if name != 'cell2'}
    assert by_host(answer) == left
    assert took_s < usual_s + LATER_S

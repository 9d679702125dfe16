# SPDX-License-Identifier: Apache-2.0
"""Files of decisions that releases wrote are read as long as there are such releases.

A file is written once, with the record below, and never changed:

    python -m tests.golden.test_decision_files tests/golden/decisions/version-N.sqlite
"""

import pathlib
import shutil
import sys
import tempfile

import pytest

from novasched.decisions import files
from novasched.decisions.body import VERSION, body_of
from novasched.decisions.reading import Criteria, DecisionFiles
from novasched.decisions.record import DecisionRecord, Head
from novasched.decisions.writing import DecisionWriter
from tests.support.records.stored_records import write

HERE = pathlib.Path(__file__).parent / 'decisions'
HOSTS = ['cmp-1', 'cmp-2', 'cmp-3', 'cmp-4']
UUID = '5b1c8e42-0000-4000-8000-000000000001'
RECORD = DecisionRecord(
    Head(
        id='d-35b0e846g0012',
        at=1_795_471_780_109_457,
        request_id='req-1',
        global_request_id='req-2',
        project_id='project',
        user_id='user',
        flavor='m1.large',
        zone='az1',
        result='scheduled',
        hosts=4,
        candidates=3,
        took_us=24_000,
        worker='controller-1:42',
    ),
    body_of(
        {
            'v': 1,
            'servers': [
                {
                    'uuid': UUID,
                    'host': 'cmp-1',
                    'node': 'cmp-1',
                    'cell': 'cell1',
                    'alternates': ['cmp-2'],
                }
            ],
            'request': {
                'flavor': {'name': 'm1.large', 'vcpus': 4, 'extra_specs': {'a': 'b'}},
                'image': None,
                'zone': 'az1',
                'hints': {'group': 'web', 'secret': None},
                'is_move': False,
            },
            'asked': [{'query': 'resources=VCPU:4', 'status': 200, 'candidates': 3}],
            'notes': [],
            'view': {'left_out': [], 'ages_s': {'cell1': 1.5}},
            'profile': 'f' * 16,
            'claims': [
                {
                    'host': 'cmp-1',
                    'servers': [UUID],
                    'outcome': 'claimed',
                    'text': '',
                    'ms': 3.5,
                }
            ],
            'claims_total': 1,
            'stages_ms': {'query': 17.0, 'filter': 0.5},
            'error': None,
            'placement': None,
            'decisions': [
                {
                    'index': 0,
                    'attempt': 1,
                    'seed': 7,
                    'host_list': 'a' * 16,
                    'steps': [
                        {
                            'name': 'ComputeFilter',
                            'in': 3,
                            'out': 2,
                            'reasons': [['service-down', '74 s', 1, 'cmp-3']],
                        }
                    ],
                    'outcomes': b'\x01\x01\x02\x00',
                    'top': ['cmp-1', 'cmp-2'],
                    'totals': [1.5, 1.25],
                    'host': 'cmp-1',
                }
            ],
        }
    ),
    {'a' * 16: HOSTS},
    {'f' * 16: {'filters': ['ComputeFilter'], 'version': '0.1.0'}},
)


@pytest.fixture(params=sorted(HERE.iterdir()), ids=lambda path: path.stem)
def reader(request, tmp_path):
    """What reads a file that a release wrote."""
    shutil.copy(request.param, tmp_path / files.name_of(1))
    return DecisionFiles(tmp_path)


def test_a_file_of_every_release_is_read(reader):
    assert reader.read(RECORD.head.id) == RECORD
    assert reader.find(Criteria(server=UUID)) == [RECORD.head]
    assert reader.servers_of([RECORD.head.id])[RECORD.head.id].hosts == ['cmp-1']
    (count,) = reader.count('day', Criteria())
    assert (count.value, count.count) == ('2026-11-23', 1)


def test_each_version_has_its_file():
    versions = {f'version-{number}.sqlite' for number in range(1, VERSION + 1)}
    assert {path.name for path in HERE.iterdir()} == versions
    assert files.SCHEMA_VERSION == VERSION


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as scratch:
        writer = DecisionWriter(pathlib.Path(scratch))
        write(writer, [RECORD])
        writer.close()
        shutil.copy(pathlib.Path(scratch) / files.name_of(1), sys.argv[1])

# SPDX-License-Identifier: Apache-2.0
import pytest

from novasched import errors
from novasched_lab.compute import fleet
from tests.support.tables.cases import cases

TEXT = """
seed = 7

[[hosts]]
name = "node-{:02}"
count = 2
cell = "cell1"
zone = "az1"
vcpus = 8
memory_mb = 8192
numa_nodes = 2
dedicated_cpus = "0-1,4-5"
pages = {1048576 = 2}
traits = ["HW_CPU_X86_AVX2"]

[[hosts.devices]]
vendor_id = "15b3"
product_id = "1018"
count = 4
numa_node = 1

[[hosts]]
name = "plain"

[[rules]]
outcome = "refuse"
probability = 0.05
hosts = ["node-*"]
"""


def test_a_file_is_read(tmp_path):
    path = tmp_path / 'fleet.toml'
    path.write_text(TEXT)
    read = fleet.read(path)
    assert [host.name for host in read.hosts] == ['node-01', 'node-02', 'plain']
    first = read.hosts[0]
    assert first.dedicated_cpus == {0, 1, 4, 5}
    assert first.pages == {1048576: 2}
    assert first.devices[0].numa_node == 1
    assert (read.seed, read.rules[0].hosts) == (7, ('node-*',))
    assert len({host.uuid for host in read.hosts}) == 3


def test_a_host_is_the_same_in_every_run():
    one, other = (fleet.fleet_of({'hosts': [{'name': 'a'}]}) for _ in range(2))
    assert one.hosts[0].uuid == other.hosts[0].uuid


@cases(
    'content',
    ('no hosts', {}),
    ('two of one name', {'hosts': [{'name': 'a'}, {'name': 'a'}]}),
    ('a host without a name', {'hosts': [{'vcpus': 1}]}),
    ('a host that is a text', {'hosts': ['a']}),
    ('an unknown key', {'hosts': [{'name': 'a', 'cpus': 1}]}),
    ('an unknown part', {'zones': []}),
    ('CPUs as a text', {'hosts': [{'name': 'a', 'vcpus': 'x'}]}),
    ('less than no CPUs', {'hosts': [{'name': 'a', 'vcpus': -1}]}),
    ('no memory', {'hosts': [{'name': 'a', 'memory_mb': 0}]}),
    ('none of a host', {'hosts': [{'name': 'a{0}', 'count': 0}]}),
    ('a wrong place', {'hosts': [{'name': 'a{1}', 'count': 2}]}),
    (
        'cores that cannot be split',
        {'hosts': [{'name': 'a', 'vcpus': 6, 'numa_nodes': 2}]},
    ),
    (
        'dedicated CPUs that it lacks',
        {'hosts': [{'name': 'a', 'vcpus': 4, 'dedicated_cpus': '2-8'}]},
    ),
    ('CPUs that are none', {'hosts': [{'name': 'a', 'dedicated_cpus': 'x'}]}),
    (
        'more pages than memory',
        {'hosts': [{'name': 'a', 'numa_nodes': 1, 'pages': {1048576: 999}}]},
    ),
    ('pages on no node', {'hosts': [{'name': 'a', 'pages': {2048: 1}}]}),
    ('pages without a size', {'hosts': [{'name': 'a', 'pages': 3}]}),
    (
        'a device without a product',
        {'hosts': [{'name': 'a', 'devices': [{'vendor_id': '1'}]}]},
    ),
    (
        'a device on no node',
        {
            'hosts': [
                {
                    'name': 'a',
                    'devices': [{'vendor_id': '1', 'product_id': '2', 'numa_node': 3}],
                }
            ]
        },
    ),
    ('an unknown outcome', {'hosts': [{'name': 'a'}], 'rules': [{'outcome': 'sulk'}]}),
    (
        'more than certain',
        {'hosts': [{'name': 'a'}], 'rules': [{'outcome': 'refuse', 'probability': 2}]},
    ),
    ('a rule that is a text', {'hosts': [{'name': 'a'}], 'rules': ['refuse']}),
)
def test_invalid_fleet_is_refused(content):
    with pytest.raises(errors.OptionError, match='--fleet'):
        fleet.fleet_of(content)


@pytest.mark.parametrize(
    'text', [pytest.param(None, id='no file'), pytest.param('hosts = [', id='no TOML')]
)
def test_a_file_that_cannot_be_read(tmp_path, text):
    path = tmp_path / 'fleet.toml'
    if text is not None:
        path.write_text(text)
    with pytest.raises(errors.OptionError, match=r'fleet\.toml'):
        fleet.read(path)

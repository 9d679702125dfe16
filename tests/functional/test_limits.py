# SPDX-License-Identifier: Apache-2.0
"""What filters want the compute to enforce travels in the answer."""

from tests.functional.conftest import Host, named_uuid

FILTERS = ['ComputeFilter', 'RetryFilter', 'RamFilter', 'CoreFilter', 'DiskFilter']


def test_selections_and_alternates_have_the_limits_of_the_filters(cloud):
    hosts = [Host(f'h{vcpus}', vcpus=vcpus) for vcpus in (2, 4, 8)]
    made = cloud(hosts, filter_scheduler={'enabled_filters': FILTERS})
    made.serve()
    answer = made.call([named_uuid('a'), named_uuid('b')], num_instances=2)
    found = {
        one.service_host: one.limits.to_dict()
        for selections in answer
        for one in selections
    }
    whole = {'memory_mb': 8192, 'disk_gb': 100}
    assert found == {f'h{n}': {**whole, 'vcpu': 4 * n} for n in (2, 4, 8)}

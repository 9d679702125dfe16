# SPDX-License-Identifier: Apache-2.0
"""A driver as sites wrote it for nova 17 to 23; it knows nothing of novasched."""

from nova import exception
from nova.scheduler import driver


class LastByName(driver.Scheduler):
    """Of the hosts that pass, take the last by name."""

    def select_destinations(
        self,
        context,
        spec_obj,
        instance_uuids,
        alloc_reqs_by_rp_uuid,
        provider_summaries,
        allocation_request_version=None,
        return_alternates=False,
    ):
        hosts = self.host_manager.get_host_states_by_uuids(
            context, list(provider_summaries), spec_obj
        )
        passed = self.host_manager.get_filtered_hosts(hosts, spec_obj)
        if not passed:
            raise exception.NoValidHost(reason='all are busy')
        passed.sort(key=lambda host: host.host, reverse=True)
        return [passed for _ in instance_uuids]

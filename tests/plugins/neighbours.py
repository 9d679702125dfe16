# SPDX-License-Identifier: Apache-2.0
"""A filter as sites write it for nova: it reads nova's database, and asks for zones."""

from nova import availability_zones, context, objects
from nova.scheduler import filters


class NeighboursFilter(filters.BaseHostFilter):
    """Pass hosts of the zone in a hint, without an instance of the same project."""

    def host_passes(self, host_state, spec_obj):
        admin = spec_obj._context.elevated()
        zone = availability_zones.get_host_availability_zone(admin, host_state.host)
        if zone not in spec_obj.scheduler_hints['zones']:
            return False
        mapping = objects.HostMapping.get_by_host(admin, host_state.host)
        with context.target_cell(admin, mapping.cell_mapping) as targeted:
            found = objects.InstanceList.get_by_host(targeted, host_state.host)
        read = [each for each in found if each.project_id == spec_obj.project_id]
        shown = host_state.instances.values()
        own = [each for each in shown if each.project_id == spec_obj.project_id]
        assert len(read) == len(own)
        return not own

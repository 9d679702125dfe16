# SPDX-License-Identifier: Apache-2.0
"""What plugins of public clouds do, one class for each idiom, as written for nova."""

import urllib.request

import nova.conf
from nova import availability_zones, context, exception
from nova.i18n import _
from nova.scheduler import filters, utils, weights
from nova.scheduler.filters import utils as filters_utils
from oslo_config import cfg
from oslo_log import log as logging

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF
OPTIONS = [
    cfg.IntOpt('most_instances', default=2, help=_('Instances of a project on a host')),
    cfg.URIOpt('inventory', help=_('Service that knows which hosts are in repair')),
]
CONF.register_opts(OPTIONS, 'idioms')


class IdleCPUWeigher(weights.BaseHostWeigher):
    """Metrics: prefer hosts whose CPUs are idle."""

    def weight_multiplier(self, host_state):
        return utils.get_weight_multiplier(host_state, 'idle_weight_multiplier', 1.0)

    def _weigh_object(self, host_state, weight_properties):
        reported = {m['name']: m.get('value') for m in host_state.metrics.to_list()}
        return reported.get('cpu.idle.percent') or 0.0


class ZoneAntiAffinityFilter(filters.BaseHostFilter):
    """Zones of group members: no two of a group in one zone."""

    def host_passes(self, host_state, spec_obj):
        group = spec_obj.instance_group
        if group is None or 'policy' not in group or group['policy'] != 'anti-affinity':
            return True
        admin = context.get_admin_context()
        zone_of = availability_zones.get_host_availability_zone
        taken = {zone_of(admin, host) for host in group.hosts}
        return zone_of(admin, host_state.host) not in taken


class TenantAggregateFilter(filters.BaseHostFilter):
    """Metadata of aggregates: hosts of tenants are for these alone."""

    RUN_ON_REBUILD = False

    def host_passes(self, host_state, spec_obj):
        metadata = filters_utils.aggregate_metadata_get_by_host(host_state, 'tenants')
        tenants = metadata.get('tenants', set())
        names = [
            each.name for each in host_state.aggregates if 'tenants' in each.metadata
        ]
        LOG.debug('%s is for %s, by %s', host_state, tenants, names)
        return not tenants or spec_obj.project_id in tenants


class OtherHostHintFilter(filters.BaseHostFilter):
    """Hints: not on the hosts that a hint names."""

    def host_passes(self, host_state, spec_obj):
        if utils.request_is_rebuild(spec_obj):
            return True
        named = spec_obj.get_scheduler_hint('not_on', [])
        named = [named] if isinstance(named, str) else named
        return host_state.host not in named


class LocalDiskKindFilter(filters.BaseHostFilter):
    """Extra specs: the disk that a flavor asks for, as aggregates say."""

    def host_passes(self, host_state, spec_obj):
        specs = spec_obj.flavor.extra_specs if 'extra_specs' in spec_obj.flavor else {}
        wanted = specs.get('disk:kind')
        kinds = filters_utils.aggregate_values_from_key(host_state, 'disk_kind')
        return wanted is None or wanted in kinds


class TraitWeigher(weights.BaseHostWeigher):
    """Traits: prefer the hosts of which few candidates are left with those asked."""

    def _weigh_object(self, host_state, weight_properties):
        asked = [
            n for n in weight_properties.flavor.extra_specs if n.startswith('trait:')
        ]
        return -len(host_state.allocation_candidates) if asked else 0


class FewOfProjectFilter(filters.BaseHostFilter):
    """Instances by host: bounded; and an option of its own."""

    def host_passes(self, host_state, spec_obj):
        return len(host_state.instances) < CONF.idioms.most_instances


class RepairFilter(filters.BaseHostFilter):
    """An external service: not on hosts that are in repair."""

    run_filter_once_per_request = True

    def filter_all(self, filter_obj_list, spec_obj):
        try:
            with urllib.request.urlopen(CONF.idioms.inventory, timeout=2) as answer:
                in_repair = answer.read().decode().split()
        except OSError as problem:
            raise exception.ServiceUnavailable(str(problem)) from problem
        return [each for each in filter_obj_list if each.host not in in_repair]

# SPDX-License-Identifier: Apache-2.0
"""A filter as sites write it for nova; it knows nothing of novasched."""

import nova.conf
from nova.i18n import _
from nova.scheduler import filters
from nova.scheduler.filters import utils
from oslo_config import cfg
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

CONF = nova.conf.CONF
CONF.register_opts(
    [cfg.IntOpt('spare_ram_mb', default=1024, help=_('RAM to leave free.'))],
    group='site',
)


class SpareRamFilter(filters.BaseHostFilter):
    """Leave some RAM free on each host."""

    RUN_ON_REBUILD = False

    def host_passes(self, host_state, spec_obj):
        values = utils.aggregate_values_from_key(host_state, 'spare_ram_mb')
        spare = utils.validate_num_values(values, CONF.site.spare_ram_mb)
        if host_state.free_ram_mb - spec_obj.memory_mb < spare:
            LOG.debug('%s has no RAM to spare', host_state)
            return False
        host_state.limits['memory_mb'] = host_state.free_ram_mb - spare
        return True

# SPDX-License-Identifier: Apache-2.0
"""A weigher as sites write it for nova; it knows nothing of novasched."""

import nova.conf
from nova.scheduler import utils, weights

CONF = nova.conf.CONF


class QuietHostsWeigher(weights.BaseHostWeigher):
    """Prefer hosts that build little."""

    minval = 0

    def weight_multiplier(self, host_state):
        configured = CONF.filter_scheduler.io_ops_weight_multiplier
        return utils.get_weight_multiplier(
            host_state, 'quiet_weight_multiplier', -configured
        )

    def _weigh_object(self, host_state, weight_properties):
        return 10 - host_state.num_io_ops

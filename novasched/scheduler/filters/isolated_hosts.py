# SPDX-License-Identifier: Apache-2.0
"""Keep some hosts for some images."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason

OPTS = {
    'filter_scheduler': [
        cfg.ListOpt(
            'isolated_images',
            default=[],
            deprecated_group='DEFAULT',
            help='UUIDs of the images that IsolatedHostsFilter allows only on '
            'isolated_hosts.',
        ),
        cfg.ListOpt(
            'isolated_hosts',
            default=[],
            deprecated_group='DEFAULT',
            help='Names of the hosts on which isolated_images may run.',
        ),
        cfg.BoolOpt(
            'restrict_isolated_hosts_to_isolated_images',
            default=True,
            deprecated_group='DEFAULT',
            help='Allow no other images on isolated_hosts.',
        ),
    ]
}


class IsolatedHostsFilter(ColumnFilter):
    """Pass isolated hosts for isolated images, and other hosts for other images.

    Other images may go to isolated hosts, too, unless the option that restricts them
    is set. An instance that boots from a volume has no image. Nova:
    scheduler/filters/isolated_hosts_filter.py.
    """

    reads_aggregates = False
    codes = (Code.HOST_NOT_ISOLATED, Code.HOST_ISOLATED)
    RUN_ON_REBUILD = True
    run_filter_once_per_request = True

    def __init__(
        self,
        images: Iterable[str] = (),
        hosts: Iterable[str] = (),
        restrict: bool = True,
    ) -> None:
        self.images = frozenset(images)
        self.hosts = frozenset(hosts)
        self.restrict = restrict

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        group = conf.filter_scheduler
        return cls(
            group.isolated_images,
            group.isolated_hosts,
            group.restrict_isolated_hosts_to_isolated_images,
        )

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        isolated_image = request.of_image('id') in self.images
        if not isolated_image and (not self.restrict or not self.hosts):
            return np.ones(len(hosts), bool)
        isolated: Mask = np.array([h in self.hosts for h in hosts.host.tolist()], bool)
        return isolated if isolated_image else ~isolated

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        image = request.of_image('id')
        if image in self.images:
            text = f'image {image} is isolated, the host is not'
            return Reason(Code.HOST_NOT_ISOLATED, text)
        text = f'the host is isolated, image {image} is not'
        return Reason(Code.HOST_ISOLATED, text)

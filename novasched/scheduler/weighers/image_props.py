# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts by how like the images of their instances are to the request's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from oslo_config import cfg

from novasched import errors
from novasched.objects.image_meta import ImageMetaProps
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import metrics, warnings
from novasched.scheduler.aggregates import Aggregates
from novasched.scheduler.hosts import Floats, HostTable, Rows
from novasched.scheduler.warnings import PluginWarning
from novasched.scheduler.weighers import Weigher

Property = tuple[str, str]

OPTS = {
    'filter_scheduler': [
        cfg.FloatOpt(
            'image_props_weight_multiplier',
            default=0.0,
            help='Weight of instances whose images have properties of the '
            "request's image. Positive puts like images together, negative apart; 0 "
            'does not look at images, even where an aggregate has this key.',
        ),
        cfg.ListOpt(
            'image_props_weight_setting',
            default=[],
            help='What each property counts, as ``name=ratio``; others count '
            'nothing. Empty: every property counts 1.',
        ),
    ]
}


def properties(image: ImageMetaProps) -> set[Property]:
    """Return the properties of an image, each with its value as text."""
    return {(name, str(getattr(image, name))) for name in image.fields if name in image}


def properties_of_texts(texts: Mapping[str, str]) -> set[Property]:
    """Return the properties that an instance keeps of its image.

    Raises ValueError for one that does not fit, as nova does.
    """
    try:
        return properties(ImageMetaProps.from_dict(texts))
    except errors.InvalidRequest as problem:
        raise ValueError(problem.reason) from problem


class ImagePropertiesWeigher(Weigher):
    """Prefer hosts whose instances have images with the properties of the request's.

    Each instance counts once for each property that its image shares, name and
    value. The images are read from the cells, once per request, unless the option
    is 0. Nova: scheduler/weights/image_props.py.
    """

    option = 'image_props_weight_multiplier'
    columns = ('instance_images',)

    def __init__(self, multiplier: float = 0.0, setting: Iterable[str] = ()) -> None:
        super().__init__(multiplier)
        setting = tuple(setting)
        self._ratios = dict(metrics.ratios(setting))
        self._ignored = metrics.invalid_ratios(setting)

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        group = conf.filter_scheduler
        return cls(
            group.image_props_weight_multiplier, group.image_props_weight_setting
        )

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Floats:
        raw = np.zeros(len(hosts))
        wanted = self._wanted(request) if self.multiplier != 0.0 else {}
        if not wanted:
            return raw
        places, codes, images = _instances(hosts)
        for wanted_property, ratio in sorted(wanted.items()):
            has = np.array([wanted_property in image for image in images], bool)
            raw += ratio * np.bincount(places[has[codes]], minlength=len(hosts))
        return raw

    def _wanted(self, request: RequestSpec) -> dict[Property, float]:
        """Return the properties of the request that count, and what they count."""
        wanted = {
            found: self._ratios.get(found[0], 0.0) if self._ratios else 1.0
            for found in properties(request.image_properties)
        }
        return {found: ratio for found, ratio in wanted.items() if ratio != 0.0}

    def config_warnings(self, groups: Sequence[Aggregates]) -> Iterator[PluginWarning]:
        """Yield what of the option is ignored, and odd multipliers."""
        option = 'filter_scheduler.image_props_weight_setting'
        yield from warnings.setting_warnings(option, self._ignored)
        yield from super().config_warnings(groups)


def _instances(hosts: HostTable) -> tuple[Rows, Rows, list[set[Property]]]:
    """Return the instances of all hosts: the places of their hosts, the numbers of
    their images, and the images. Instances of one image share their texts."""
    by_uuid = hosts.instance_images.tolist()
    texts = [texts for images in by_uuid for texts in images.values()]
    places = np.repeat(np.arange(len(by_uuid)), [len(images) for images in by_uuid])
    _, first, codes = np.unique(
        np.array([id(each) for each in texts], np.int64),
        return_index=True,
        return_inverse=True,
    )
    return places, codes, [properties_of_texts(texts[i]) for i in first.tolist()]

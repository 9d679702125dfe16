# SPDX-License-Identifier: Apache-2.0
"""What a feature asks of the provider, and where the flavor or image names it.

Many features may be named by an extra spec, ``hw:x``, by the property of an image,
``hw_x``, or by both if they say the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from novasched import errors
from novasched.objects.request_spec import RequestSpec

NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Demand:
    """What is added to the group without a suffix.

    Amounts replace those that are there. ``warnings`` are for the operator.
    """

    resources: Mapping[str, int] = field(default_factory=dict)
    required: frozenset[str] = NONE
    forbidden: frozenset[str] = NONE
    warnings: tuple[str, ...] = ()


def required(trait: str) -> Demand:
    """Return the demand for one trait."""
    return Demand(required=frozenset({trait}))


def flavor_name(request: RequestSpec) -> str | None:
    """Return the name of the flavor; None when it has none."""
    return request.flavor.name if 'name' in request.flavor else None


def image_name(request: RequestSpec) -> str | None:
    """Return the name of the image; None when it has none."""
    return _of_image(request, 'name')


def image_id(request: RequestSpec) -> str | None:
    """Return the id of the image; None when it has none, as that of a volume."""
    return _of_image(request, 'id')


def _of_image(request: RequestSpec, name: str) -> str | None:
    image = request.image if 'image' in request else None
    if image is None or name not in image:
        return None
    value: str = getattr(image, name)
    return value


def agreed(request: RequestSpec, name: str) -> str | None:
    """Return what the extra spec says, else the property; None: neither.

    An empty extra spec says nothing. Raises what conflict() returns where both
    speak and differ.
    """
    wanted = request.extra_specs.get(name) or None
    of_image: str | None = request.image_properties.get(property_of(name))
    if wanted is None or of_image is None or wanted == of_image:
        return wanted or of_image
    raise conflict(request, name, wanted, f'explicitly set to {of_image}.')


def conflict(
    request: RequestSpec, name: str, wanted: str, says: str
) -> errors.FlavorImageConflict:
    """Return the error for an extra spec that the property contradicts.

    ``says`` is how nova ends the text; it differs by feature.
    """
    return errors.FlavorImageConflict(
        f'Flavor {flavor_name(request)} has {name} extra spec explicitly set to '
        f'{wanted}, conflicting with image {image_name(request)} which has '
        f'{property_of(name)} {says}'
    )


def property_of(name: str) -> str:
    """Return the property of an image that means the same as an extra spec."""
    return name.replace(':', '_')


def one_of(allowed: Collection[str], value: str, what: str) -> str:
    """Return the value. Raises errors.InvalidDemand when it is not allowed."""
    if value not in allowed:
        raise errors.InvalidDemand(
            f"Invalid {what} '{value}'. Allowed values: {', '.join(allowed)}."
        )
    return value

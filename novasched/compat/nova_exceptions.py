# SPDX-License-Identifier: Apache-2.0
"""The exceptions of nova that a plugin of the scheduler may raise or catch.

Each has nova's name, base and HTTP code. Texts are nova's only where callers see them.
"""

from __future__ import annotations

from typing import Any

from oslo_versionedobjects import exception as ovo_exception

from novasched import errors

MODULE = 'nova.exception'


class NovaException(Exception):
    """Base of the errors of nova, and of those that plugins have of their own.

    A subclass has a text ``msg_fmt`` for the keywords that it is made with.
    """

    __module__ = MODULE
    msg_fmt = 'An unknown exception occurred.'
    code = 500
    headers: dict[str, str] = {}
    safe = False

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        self.kwargs = {'code': self.code, **kwargs}
        try:
            self.message = message or self.msg_fmt % self.kwargs
        except KeyError:
            self.message = self.msg_fmt
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message

    def format_message(self) -> str:
        """Return the text."""
        return self.message


class NoValidHost(NovaException, errors.NoValidHost):
    """No host can take the request; made as nova's is."""

    __module__ = MODULE
    msg_fmt = 'No valid host was found. %(reason)s'

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        super().__init__(message, **kwargs)
        self.reason = kwargs.get('reason', message or '')


TEXTS = {
    'Invalid': 'Bad Request - Invalid Parameters',
    'NotFound': 'Resource could not be found.',
    'Forbidden': 'Forbidden',
    'InvalidInput': 'Invalid input received: %(reason)s',
    'InternalError': '%(err)s',
}
FAMILIES = {
    ('NovaException', 400): 'Invalid',
    ('NovaException', 403): 'Forbidden',
    ('NovaException', 404): 'NotFound',
    ('NovaException', 413): 'OverQuota',
    ('NovaException', 500): 'ConfigNotFound HypervisorUnavailable InternalError '
    'GroupAffinityViolation PciDeviceRequestFailed PciDevicePoolEmpty '
    'PciRequestAliasNotDefined ResourceProviderInUse ResourceProviderRetrievalFailed '
    'ResourceProviderAggregateRetrievalFailed ResourceProviderTraitRetrievalFailed '
    'ResourceProviderAllocationRetrievalFailed ConsumerAllocationRetrievalFailed '
    'PlacementAPIConnectFailure PlacementAPIConflict TooManyComputesForHost '
    'FlavorImageConflict FlavorMemoryTooSmall FlavorDiskTooSmall',
    ('Forbidden', 403): 'PolicyNotAuthorized',
    ('NotFound', 404): 'ImageNotFound ServiceNotFound HostNotFound FlavorNotFound '
    'CellTimeout SchedulerHostFilterNotFound FlavorExtraSpecsNotFound '
    'ComputeHostMetricNotFound AggregateNotFound AggregateHostNotFound '
    'AggregateMetadataNotFound InstanceNotFound InstanceGroupNotFound '
    'PciDeviceNotFound CellMappingNotFound RequestSpecNotFound '
    'ResourceProviderNotFound',
    ('HostNotFound', 404): 'ComputeHostNotFound',
    ('Invalid', 400): 'InvalidConfiguration InvalidInput InvalidParameterValue '
    'InvalidAggregateAction InstanceInvalidState ServiceUnavailable ImageUnacceptable '
    'InvalidHypervisorType UnsupportedPolicyException NUMATopologyUnsupported '
    'MemoryPagesUnsupported HostMappingNotFound InvalidResourceClass',
    ('ServiceUnavailable', 400): 'ComputeResourcesUnavailable '
    'ComputeServiceUnavailable',
}
"""By base and HTTP code; a base comes before what is derived from it."""


def _made() -> dict[str, type[Exception]]:
    found: dict[str, type[Exception]] = {
        'NovaException': NovaException,
        'NoValidHost': NoValidHost,
        # What a field that was never set raises.
        'ObjectActionError': ovo_exception.ObjectActionError,
        'OrphanedObjectError': ovo_exception.OrphanedObjectError,
    }
    for (base, code), names in FAMILIES.items():
        for name in names.split():
            text = TEXTS.get(name, f'{name}.')
            own = {'__module__': MODULE, 'code': code, 'msg_fmt': text}
            found[name] = type(name, (found[base],), own)
    return found


EXCEPTIONS = _made()

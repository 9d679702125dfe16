# SPDX-License-Identifier: Apache-2.0
"""Errors on the wire: the one table to nova's names.

A nova client builds the class that a failure names, if it stands in
``nova.exception``; what stands elsewhere reaches it as a RemoteError. The
message layer takes name and module from the class, so ours carry nova's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from novasched import errors

NOVA = 'nova.exception'


class WireError(Exception):
    """An error in wire form; subclasses have the name and module of another.

    ``args`` is the text alone and ``kwargs`` what the text is made of, so that
    the receiver keeps the text as it is.
    """

    def __init__(self, text: str, kwargs: Mapping[str, Any]) -> None:
        super().__init__(text)
        self.kwargs = dict(kwargs)


@dataclass(frozen=True)
class Form:
    """The wire class of an error, and the keywords that go with it."""

    wire: type[WireError]
    code: int | None
    keywords: Callable[[Any], dict[str, Any]]

    def of(self, error: errors.RequestError) -> WireError:
        code = {} if self.code is None else {'code': self.code}
        return self.wire(str(error), {**self.keywords(error), **code})


def to_wire(error: errors.RequestError) -> Exception:
    """Return the exception of an endpoint for an error, to ``raise ... from error``.

    A class that the table lacks looks like the nearest base that it has.
    """
    if isinstance(error, errors.ExtensionFailed):
        return _of_extension(error)
    form = next(TABLE[base] for base in type(error).__mro__ if base in TABLE)
    return form.of(error)


def _of_extension(error: errors.ExtensionFailed) -> Exception:
    """Let the error of a plugin through under its own name, as nova does."""
    problem = error.problem
    if isinstance(problem, errors.RequestError):
        return to_wire(problem)
    if type(problem).__module__ == NOVA:
        return problem
    return _wire_class(type(problem).__module__, type(problem).__name__)(str(error), {})


def _wire_class(module: str, name: str) -> type[WireError]:
    return type(name, (WireError,), {'__module__': module})


def _form(
    name: str,
    keywords: Callable[[Any], dict[str, Any]] = lambda error: {},
    *,
    module: str = NOVA,
    code: int | None = 500,
) -> Form:
    return Form(_wire_class(module, name), code, keywords)


def _details(error: errors.InvalidDemand) -> dict[str, Any]:
    return dict(error.details)


def _metric(error: errors.MetricNotFound) -> dict[str, Any]:
    return {'name': error.metric, 'host': error.host, 'node': error.node}


def _unset_field(error: errors.UnsetField) -> dict[str, Any]:
    action, _, reason = str(error).partition(' failed because: ')
    return {'action': action.removeprefix('Object action '), 'reason': reason}


TABLE: dict[type[Exception], Form] = {
    errors.RequestError: _form('NovaException'),
    errors.NoValidHost: _form('NoValidHost', lambda error: {'reason': error.reason}),
    errors.InvalidRequest: _form('InvalidRequest', code=400),
    errors.UnsetField: _form('ObjectActionError', _unset_field),
    errors.UnsupportedObject: _form(
        'UnsupportedObjectError',
        lambda error: {'objtype': error.name},
        module='oslo_versionedobjects.exception',
    ),
    errors.InvalidRequestGroup: _form('ValueError', module='builtins', code=None),
    errors.InvalidDemand: _form('Invalid', code=400),
    errors.RequestGroupSuffixConflict: _form('RequestGroupSuffixConflict', _details),
    errors.FlavorImageConflict: _form('FlavorImageConflict'),
    errors.ImageCPUPinningForbidden: _form('ImageCPUPinningForbidden', code=403),
    errors.ImageCPUThreadPolicyForbidden: _form(
        'ImageCPUThreadPolicyForbidden', code=403
    ),
    errors.ImagePCINUMAPolicyForbidden: _form('ImagePCINUMAPolicyForbidden', code=403),
    errors.InvalidCPUAllocationPolicy: _form(
        'InvalidCPUAllocationPolicy', _details, code=400
    ),
    errors.InvalidCPUThreadAllocationPolicy: _form(
        'InvalidCPUThreadAllocationPolicy', _details, code=400
    ),
    errors.InvalidEmulatorThreadsPolicy: _form(
        'InvalidEmulatorThreadsPolicy', _details, code=400
    ),
    errors.InvalidMixedInstanceDedicatedMask: _form(
        'InvalidMixedInstanceDedicatedMask', code=400
    ),
    errors.RealtimeMaskNotFoundOrInvalid: _form(
        'RealtimeMaskNotFoundOrInvalid', code=400
    ),
    errors.InvalidMachineType: _form('InvalidMachineType', _details, code=400),
    errors.StatelessFirmwareRequired: _form('StatelessFirmwareRequired', code=400),
    errors.InvalidVideoMode: _form('InvalidVideoMode', code=400),
    errors.InvalidPCINUMAAffinity: _form('InvalidPCINUMAAffinity', _details, code=400),
    errors.NetworkFailed: _form('NovaException'),
    errors.PortNotFound: _form('PortNotFound', dataclasses.asdict, code=404),
    errors.NetworkUnauthorized: _form('Unauthorized', code=401),
    errors.NetworkForbidden: _form('Forbidden', code=403),
    errors.Busy: _form('Busy', module='novasched.errors', code=None),
    errors.AllocationUpdateFailed: _form('AllocationUpdateFailed', dataclasses.asdict),
    errors.AlreadyClaimed: _form('AllocationUpdateFailed', dataclasses.asdict),
    errors.AllocationDeleteFailed: _form('AllocationDeleteFailed', dataclasses.asdict),
    errors.MetricNotFound: _form('ComputeHostMetricNotFound', _metric, code=404),
    errors.StoreFailed: _form('DBError', module='oslo_db.exception', code=None),
    errors.StoreInterrupted: _form('DBError', module='oslo_db.exception', code=None),
    errors.StoreUnreachable: _form('DBError', module='oslo_db.exception', code=None),
}

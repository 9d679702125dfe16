# SPDX-License-Identifier: Apache-2.0
"""Plugins made as the service makes them, and checks of what they decide."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg

from novasched import errors
from novasched.compat import plugin_adapter
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import pipeline
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.hosts import HostTable
from novasched.scheduler.reasons import Reason
from novasched.scheduler.weighers import BaseHostWeigher, Weigher


def load(path: str, nova_conf: str = '') -> Any:
    """Make the filter or weigher at a dotted path, as the service makes it.

    ``nova_conf`` is the text of a configuration file. A plugin made for nova may import
    nova from here on. Raises errors.SetupError if the class is neither.
    """
    # They import the whole service, which other tests do without.
    from novasched import opts, plugins

    conf = cfg.ConfigOpts()
    opts.register(conf)
    with tempfile.NamedTemporaryFile('w', suffix='.conf') as file:
        file.write(nova_conf)
        file.flush()
        files = [file.name]
        conf([], project='nova', default_config_files=files, default_config_dirs=[])
    plugins.install_nova_modules(conf)
    name = path.rpartition('.')[2]
    try:
        kind, found = plugins.FILTERS, plugin_adapter.at(path, BaseHostFilter)
    except errors.ClassNotFound:
        kind, found = plugins.WEIGHERS, plugin_adapter.at(path, BaseHostWeigher)
    return plugin_adapter.make(found[name], conf, kind.option)


def rejections(
    filter_: BaseHostFilter, hosts: HostTable, request: RequestSpec
) -> dict[str, Reason]:
    """Return the reason for each host that a filter rejects, by its name.

    The filter runs as it does in a decision. Raises errors.ExtensionFailed when it
    raises.
    """
    adapted = plugin_adapter.adapted(filter_)
    _, (step,) = pipeline.run_filters([adapted], hosts, request)
    return {host.host: reason for host, reason in step.reasons(request)}


def assert_passes(
    filter_: BaseHostFilter, hosts: HostTable, request: RequestSpec
) -> None:
    """Raise AssertionError unless a filter passes every host."""
    rejected = rejections(filter_, hosts, request)
    if rejected:
        raise AssertionError(f'{type(filter_).__name__} rejects {_said(rejected)}')


def assert_rejects(
    filter_: BaseHostFilter,
    hosts: HostTable,
    request: RequestSpec,
    code: str | None = None,
) -> None:
    """Raise AssertionError unless a filter rejects every host, with the code if one
    is given."""
    rejected = rejections(filter_, hosts, request)
    passed = [name for name in hosts.host.tolist() if name not in rejected]
    if passed:
        raise AssertionError(f'{type(filter_).__name__} passes {", ".join(passed)}')
    others = {n: reason for n, reason in rejected.items() if code != reason.code}
    if code is not None and others:
        raise AssertionError(f'not {code}: {_said(others)}')


def _said(reasons: Mapping[str, Reason]) -> str:
    return ', '.join(f'{n} ({why.code}: {why})' for n, why in reasons.items())


@dataclass(frozen=True)
class Weights:
    """What a weigher made of the hosts, by their names; ``ranked``: best one first."""

    raw: dict[str, float]
    normalized: dict[str, float]
    multipliers: dict[str, float]
    ranked: list[str]


def weigh(weigher: Weigher, hosts: HostTable, request: RequestSpec) -> Weights:
    """Weigh hosts as in a decision. Raises ValueError for fewer than two, as then no
    weigher runs, and errors.ExtensionFailed when the weigher raises."""
    if len(hosts) < 2:
        raise ValueError('no weigher runs for fewer than two hosts')
    adapted = plugin_adapter.adapted(weigher)
    weighed = pipeline.weigh([adapted], hosts, request)
    (found,) = weighed.weighings
    names = hosts.host.tolist()
    order = pipeline.descending(weighed.totals)
    return Weights(
        raw=dict(zip(names, found.raw.tolist(), strict=True)),
        normalized=dict(zip(names, found.normalized.tolist(), strict=True)),
        multipliers=dict(zip(names, found.multipliers.tolist(), strict=True)),
        ranked=[names[place] for place in order.tolist()],
    )

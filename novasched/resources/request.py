# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates query of a request, and where the request must go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oslo_config import cfg

from novasched.objects.request_spec import Destination, RequestSpec
from novasched.resources.features import FEATURES, Features
from novasched.resources.groups import Groups, RequestedGroups, asked_by
from novasched.resources.query import Group, Query
from novasched.resources.requirements import Requirements

OPTS: dict[str, list[cfg.Opt]] = {
    'scheduler': [
        cfg.IntOpt(
            'max_placement_results',
            default=1000,
            min=1,
            help="""
The maximum number of placement results to request.

This limits the number of allocation candidates, not of hosts, that placement
returns for a request. So it limits the memory and the time that a request
takes in a large deployment. Which candidates are cut off does not depend on how well
they suit. Requests that must see all hosts, such as those with a server group,
are not limited.
""",
        ),
    ],
    'novasched': [
        cfg.BoolOpt(
            'look_beyond_limit',
            default=True,
            help="""
Ask placement for all candidates when no host is left of the first ones.

Placement gives ``[scheduler] max_placement_results`` candidates at most. If candidates
were cut off, and the filters leave no host, the request is tried once more with all
candidates. That takes time and memory in a large deployment. False, as with nova: there
is no valid host. It is not done if hosts were left but could not be claimed.

Related options:

* ``[scheduler] max_placement_results``
""",
        ),
    ],
    'workarounds': [
        cfg.BoolOpt(
            'disable_fallback_pcpu_query',
            default=False,
            help="""
Ask placement only for hosts that report dedicated CPUs as PCPU.

For a request with the CPU policy ``dedicated`` placement is asked twice: with PCPU, and
with VCPU. The second query is for compute hosts without ``[compute]
cpu_dedicated_set``, which pin guests to CPUs that they report as VCPU. Set this when
there is no such host left: it saves a query to placement.
""",
        ),
    ],
}

_HINTS_THAT_NEED_ALL_HOSTS = ('group', 'same_host', 'different_host')


@dataclass(frozen=True)
class Target:
    """A service host, a node or both."""

    host: str | None
    node: str | None


def target_of(request: RequestSpec) -> Target | None:
    """Return where the request must go; a destination comes before force_hosts."""
    place = request.requested_destination or Destination()
    host = place.if_set('host') or _first(request.if_set('force_hosts'))
    node = place.if_set('node') or _first(request.if_set('force_nodes'))
    return Target(host, node) if host or node else None


def _first(names: Sequence[str] | None) -> str | None:
    return names[0] if names else None


def not_found(request: RequestSpec) -> str:
    """Return nova's reason for NoValidHost when no compute node is the target."""
    target = target_of(request)
    host, node = (target.host, target.node) if target else (None, None)
    return f'No such host - host: {host} node: {node} '


def with_aggregates(request: RequestSpec, added: Requirements) -> RequestSpec:
    """Return the request with the aggregates that prefilters demand or forbid.

    They are for notifications and plugins. A query must be built from the request
    as it came. Nova: scheduler/request_filter.py.
    """
    if not added.member_of and not added.not_member_of:
        return request
    before = request.requested_destination or Destination()
    must = [','.join(sorted(uuids)) for uuids in added.member_of]
    must_not = set(before.forbidden_aggregates or ()) | added.not_member_of
    after = before.replaced(
        aggregates=[*(before.aggregates or ()), *must] or None,
        forbidden_aggregates=must_not or None,
    )
    return request.replaced(requested_destination=after)


def build_query(
    request: RequestSpec,
    added: Requirements,
    nodes: Sequence[str] | None,
    limit: int | None,
    falls_back: bool = True,
    features: Features = FEATURES,
) -> Query:
    """Return the query for all that a request needs; the request stays as it is.

    ``added`` is what prefilters added. ``nodes`` are the uuids of the compute nodes
    that the request names; None if it names none. With ``falls_back``, a query for
    dedicated CPUs gets a fallback to shared CPUs. ``features`` depend on the cloud's
    release. Raises what asked_by() raises.
    """
    asked = asked_by(request, added.group_required, features=features)
    query = _query(request, asked, added, nodes, limit)
    if not asked.cpus_are_dedicated or not falls_back:
        return query
    asked = asked_by(request, added.group_required, True, features)
    fallback = _query(request, asked, added, nodes, limit)
    return replace(query, fallback=fallback)


def _query(
    request: RequestSpec,
    asked: RequestedGroups,
    added: Requirements,
    nodes: Sequence[str] | None,
    limit: int | None,
) -> Query:
    groups = _with_destination(asked.groups, request, added, nodes)
    ports = tuple(network.port_id or '-' for network in request.requested_networks)
    query = Query(
        groups=tuple(groups.values()),
        root_required=added.root_required | request.root_required,
        root_forbidden=added.root_forbidden | request.root_forbidden,
        same_subtree=tuple(frozenset(suffixes) for suffixes in request.same_subtree),
        group_policy=asked.group_policy,
        limit=None if _needs_all(request, nodes) else limit,
        for_ports=any(suffix.startswith(ports) for suffix in groups),
        warnings=asked.warnings,
    )
    return _with_policy(query, asked)


def _with_destination(
    groups: Groups,
    request: RequestSpec,
    added: Requirements,
    nodes: Sequence[str] | None,
) -> Groups:
    """Narrow the plain group to where the request must and must not go."""
    must, must_not = [], set(added.not_member_of)
    destination = request.requested_destination
    if destination is not None:
        must += [frozenset(item.split(',')) for item in destination.aggregates or ()]
        must_not |= set(destination.forbidden_aggregates or ())
    must += added.member_of
    in_tree = nodes[0] if nodes is not None and len(nodes) == 1 else None
    if not must and not must_not and in_tree is None:
        return groups
    plain = replace(
        groups.get('', Group()),
        member_of=tuple(must),
        not_member_of=frozenset(must_not),
        in_tree=in_tree,
    )
    return {**groups, '': plain}


def _needs_all(request: RequestSpec, nodes: Sequence[str] | None) -> bool:
    if nodes is not None and len(nodes) > 1:
        return True
    hints = (request.hint(name) for name in _HINTS_THAT_NEED_ALL_HOSTS)
    return any(hint is not None for hint in hints)


def _with_policy(query: Query, asked: RequestedGroups) -> Query:
    """Choose a policy where placement needs one and the flavor cannot know that.

    A flavor with several groups of its own should have one; there the query is
    sent as it is, and refused.
    """
    suffixed = [group for group in query.groups if group.suffix]
    if query.group_policy is not None or len(suffixed) < 2:
        return query
    warning = (
        'The request has several numbered resource groups and no group policy, '
        'which placement does not accept. Add group_policy to the extra specs of '
        'the flavor.'
    )
    query = replace(query, warnings=(*query.warnings, warning))
    if len(asked.own_suffixes) > 1:
        return query
    note = "The policy 'none' is used for groups that do not come from the flavor."
    return replace(query, group_policy='none', notes=(note,))

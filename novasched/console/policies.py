# SPDX-License-Identifier: Apache-2.0
"""The policy of the console, as its files are at the start."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any

from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_policy import policy

from novasched import errors

RULE = 'novasched:read'
ROLES = 'role:admin or (role:reader and system_scope:all)'
POLICIES = (
    policy.DocumentedRuleDefault(
        RULE,
        ROLES,
        'Look at the decisions of all projects, and at all hosts.',
        [{'path': '/', 'method': 'GET'}],
    ),
)
GROUP = 'oslo_policy'
FILE, DIRECTORIES = 'policy_file', 'policy_dirs'


def enforcer_of(conf: cfg.ConfigOpts) -> Any:
    """Return the policy as its files are now: they are not read again.

    Raises errors.OptionError where they say less than is meant: files that are named
    and missing or cannot be parsed, a rule of ours that is misspelt, empty or cannot be
    understood, or that refers to such a rule.
    """
    enforcer, option = policy.Enforcer(conf), f'[{GROUP}] {FILE}'
    enforcer.register_defaults(POLICIES)
    paths = (*_found(conf, FILE), *_found(conf, DIRECTORIES))
    place = ' or '.join(dict.fromkeys(paths))
    try:
        enforcer.load_rules()
    except Exception as problem:
        said = f'{place} cannot be read: {problem}'
        raise errors.OptionError(option, said, 'Correct it') from problem
    enforcer.use_conf = False
    for name in enforcer.file_rules:
        meant = errors.did_you_mean(name.lower(), [RULE])
        if name != RULE and (meant or name.startswith('novasched:')):
            said = f'{name} in {place} is no rule.{meant}'
            raise errors.OptionError(option, said, f'The only rule is {RULE}')
    texts = {name: each.check_str for name, each in enforcer.file_rules.items()}
    if mistake := _mistake(enforcer.rules, {RULE: ROLES, **texts}, RULE):
        problem_of_rule, remedy = mistake
        raise errors.OptionError(option, f'in {place}, {problem_of_rule}', remedy)
    return enforcer


def _found(conf: cfg.ConfigOpts, name: str) -> Iterator[str]:
    """Yield the paths of an option that there are.

    Raises errors.OptionError for one that is missing and was named by the operator.
    """
    value, given = conf[GROUP][name], conf.get_location(name, GROUP)
    is_named = given is not None and given.location.is_user_controlled
    for path in [value] if isinstance(value, str) else value:
        if found := conf.find_file(path):
            yield found
        elif is_named:
            raise errors.OptionError(
                f'[{GROUP}] {name}', f'there is no {path}', 'Write it, or unset it'
            )


def _mistake(
    rules: Mapping[str, Any],
    texts: Mapping[str, Any],
    name: str,
    above: tuple[str, ...] = (),
) -> tuple[str, str] | None:
    """Return the first mistake in a rule or in those that it refers to, and its remedy.

    Each opens to all, or closes to all, without being asked to: oslo.policy takes an
    empty rule for one that allows, and all that it does not understand for one that
    refuses, which ``not`` turns round.
    """
    if name in above:
        return f'{name} refers to itself', 'Correct it'
    if name not in texts:
        meant = errors.did_you_mean(name, texts)
        return f'{above[-1]} refers to {name}, which is not there.{meant}', 'Correct it'
    check, text = rules[name], str(texts[name]).strip()
    understood = str(check)
    if understood.count('@') > text.count('@'):
        return f'{name} is empty, which allows everybody', 'Write "@" for that'
    is_refused = understood == '!' and text != '!'
    if is_refused or understood.count('!') > text.count('!'):
        return f'{name} cannot be understood: {text}', 'Correct it'
    for part in _parts(check):
        if isinstance(part, policy.RuleCheck):
            if found := _mistake(rules, texts, part.match, (*above, name)):
                return found
        elif not _is_known(part):
            meant = errors.did_you_mean(part.kind, _kinds())
            said = f'{name} asks for {part.kind}, which no user has.{meant}'
            return said, 'Correct it'
    return None


def _parts(check: Any) -> Iterator[Any]:
    """Yield the checks that a rule is made of."""
    if isinstance(check, policy.NotCheck):
        yield from _parts(check.rule)
    elif isinstance(check, policy.AndCheck | policy.OrCheck):
        for each in check.rules:
            yield from _parts(each)
    else:
        yield check


def _is_known(check: Any) -> bool:
    """Say whether what stands before the colon of a check means anything."""
    kind = getattr(check, 'kind', None)
    if kind is None or kind in _kinds():
        return True
    try:
        ast.literal_eval(kind)
    except (ValueError, SyntaxError):
        return False
    return True


@functools.cache
def _kinds() -> frozenset[str]:
    """Return the kinds of checks, and the attributes of users, which are others."""
    installed = metadata.entry_points(group='oslo.policy.rule_checks').names
    return frozenset({'role', 'rule', *installed, *RequestContext().to_policy_values()})

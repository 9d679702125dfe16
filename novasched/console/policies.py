# SPDX-License-Identifier: Apache-2.0
"""Policy of the console, as its files are at the start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]
from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_policy import policy

from novasched import errors, parsing

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
TEXT = 'tag:yaml.org,2002:str'
OPERATORS = ('and', 'or', 'not')
TWICE = object()
"""In the place of a rule that a file has twice."""


def list_rules() -> Sequence[policy.DocumentedRuleDefault]:
    """Return the rules, for oslopolicy-sample-generator."""
    return POLICIES


class TokenOwner(RequestContext):
    """The user of a token. Log lines of later requests of the thread are not of it."""

    def update_store(self) -> None:
        """Nothing."""


class Rule(NamedTuple):
    """A rule as it is written, and the option and the file that it comes from."""

    text: Any
    option: str
    path: str

    def wrong(self, problem: str) -> errors.OptionError:
        said = f'in {self.path}, {problem}'
        remedy = 'Correct it; a rule that allows everybody is "@"'
        return errors.OptionError(f'[{GROUP}] {self.option}', said, remedy)


def enforcer_of(conf: cfg.ConfigOpts) -> Any:
    """Return the policy as its files are now: they are not read again.

    Raises errors.OptionError if a named file is missing or cannot be read. The same
    goes for a rule of ours, or one that it refers to, that is misspelt, empty or not
    understood. A rule may admit users without a role only with an ``@``.
    """
    enforcer = policy.Enforcer(conf)
    enforcer.register_defaults(POLICIES)
    rules = {RULE: Rule(ROLES, FILE, ''), **_read(conf)}
    for name, rule in rules.items():
        meant = errors.did_you_mean(name.lower(), [RULE])
        if name != RULE and (meant or name.lower().startswith('novasched:')):
            raise rule.wrong(f'{name} is no rule: the only one is {RULE}.{meant}')
    try:
        with parsing.bounded_depth():
            checks = dict(_understood(rules, RULE))
            enforcer.set_rules(checks)
            is_open = any(enforcer.authorize(RULE, {}, x) for x in _without_roles())
    except parsing.NestedTooDeep as problem:
        raise rules[RULE].wrong(f'{RULE} cannot be understood: {problem}') from problem
    if is_open and not any('@' in _words(rules[name].text) for name in checks):
        raise rules[RULE].wrong(f'{RULE} allows users who have no role')
    return enforcer


def _read(conf: cfg.ConfigOpts) -> dict[str, Rule]:
    """Return the rules of all files by name, as the last file has them."""
    rules: dict[str, Rule] = {}
    for option, path in [*_found(conf, FILE), *_found(conf, DIRECTORIES)]:
        try:
            files = _inside(path) if option == DIRECTORIES else [path]
            for path in files:
                for name, text in _parsed(path.read_text('utf-8')).items():
                    rules[name] = Rule(text, option, str(path))
        except (OSError, ValueError, OverflowError, yaml.YAMLError) as problem:
            said = f'{path} cannot be read: {problem}'
            raise errors.OptionError(
                f'[{GROUP}] {option}', said, 'Correct it'
            ) from problem
    return rules


def _found(conf: cfg.ConfigOpts, name: str) -> Iterator[tuple[str, Path]]:
    """Yield an option, and the paths that it names and that there are.

    Raises errors.OptionError for one that is missing and was named by the operator.
    """
    value, given = conf[GROUP][name], conf.get_location(name, GROUP)
    is_named = given is not None and given.location.is_user_controlled
    for path in [value] if isinstance(value, str) else value:
        if found := conf.find_file(path):
            yield name, Path(found)
        elif is_named:
            raise errors.OptionError(
                f'[{GROUP}] {name}',
                f'{path} is missing, or in a directory that may not be searched',
                'Write it, or unset it',
            )


def _inside(directory: Path) -> list[Path]:
    """Return the files of a directory that oslo.policy would read, in its order."""
    return sorted(
        each
        for each in directory.iterdir()
        if not each.name.startswith('.') and not each.is_dir()
    )


def _parsed(text: str) -> dict[str, Any]:
    """Return the rules of a file by name; only texts and lists are made of it.

    Names that are no text, and what is there twice, may be other services' in their
    file. Raises ValueError, OverflowError and yaml.YAMLError.
    """
    with parsing.bounded_depth():
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None:
            return {}
        if not isinstance(root, yaml.MappingNode):
            raise ValueError('it says no names and rules')
        written = Counter(key.value for key, _ in root.value if key.tag == TEXT)
        yaml.SafeLoader('').flatten_mapping(root)
        rules = {k.value: _written(v) for k, v in root.value if k.tag == TEXT}
        return rules | {name: TWICE for name, count in written.items() if count > 1}


def _written(node: yaml.Node) -> Any:
    """Return a text, or a list."""
    if isinstance(node, yaml.SequenceNode):
        return [_written(each) for each in node.value]
    return node.value


def _understood(
    rules: Mapping[str, Rule], name: str, above: tuple[str, ...] = ()
) -> Iterator[tuple[str, Any]]:
    """Yield a rule and the rules that it refers to, with their names.

    At each request oslo.policy refuses what it does not understand, and what a user or
    a target lacks. A ``not`` would turn that round, so it is refused here.
    """
    rule = rules[name]
    if name in above:
        raise rule.wrong(f'{name} refers to itself')
    if rule.text is TWICE:
        raise rule.wrong(f'{name} is there twice')
    words = _words(rule.text)
    check = policy.Rules.from_dict({name: rule.text})[name] if words else None
    parts = list(_parts(check))
    if [str(part) for part in parts] != words:
        raise rule.wrong(f'{name} is empty or cannot be understood: {rule.text}')
    yield name, check
    for part in parts:
        if isinstance(part, policy.RuleCheck):
            if part.match not in rules:
                meant = errors.did_you_mean(part.match, rules)
                said = f'{name} refers to {part.match}, which is not there.{meant}'
                raise rule.wrong(said)
            yield from _understood(rules, part.match, (*above, name))
        elif isinstance(part, policy.Check):
            _check_part(rule, name, part)


def _check_part(rule: Rule, name: str, part: policy.Check) -> None:
    """Raise errors.OptionError for a check that no user could meet."""
    kinds = ('role', 'rule', *TokenOwner().to_policy_values())
    if part.kind in ('http', 'https'):
        raise rule.wrong(f'{name} asks another server ({part}), which is not done')
    if part.kind not in kinds:
        meant = errors.did_you_mean(part.kind, kinds)
        raise rule.wrong(f'{name} asks for {part.kind}, which no user has.{meant}')
    if part.match in ('', 'None') or part.match != part.match.strip():
        said = f'{name} compares {part.kind} with nothing, or with blanks around it'
        raise rule.wrong(said)
    if '%' in part.match.replace('%%', ''):
        said = f'{name} has {part}, but no target; % alone is written %%'
        raise rule.wrong(said)


def _words(text: Any) -> list[Any]:
    """Return the words of a rule, without operators."""
    if isinstance(text, str):
        words = [each.lstrip('(').rstrip(')') for each in text.split()]
        return [each for each in words if each and each.lower() not in OPERATORS]
    inner = [each if isinstance(each, list) else [each] for each in text]
    return [word for each in inner for word in each]


def _parts(check: Any) -> Iterator[Any]:
    """Yield the checks that a rule is made of."""
    if isinstance(check, policy.NotCheck):
        yield from _parts(check.rule)
    elif isinstance(check, policy.AndCheck | policy.OrCheck):
        for each in check.rules:
            yield from _parts(each)
    else:
        yield check


def _without_roles() -> Iterator[dict[str, Any]]:
    """Yield users who have nothing that a rule could name."""
    nothing = TokenOwner().to_policy_values()
    for is_admin_project in (True, False):
        yield {**nothing, 'is_admin_project': is_admin_project}

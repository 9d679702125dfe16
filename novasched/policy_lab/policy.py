# SPDX-License-Identifier: Apache-2.0
"""Policies by short texts: ``pack=cpu:-1,ram:-1``, or ``now=/etc/nova/nova.conf``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from oslo_config import cfg

from novasched import errors, plugins
from novasched.policy_lab.results import PolicyText
from novasched.process import opts
from novasched.scheduler.pipeline import Profile

GROUP = 'filter_scheduler'
MULTIPLIER = '{}_weight_multiplier'
SHORT = {
    'numa_packing': 'compute.packing_host_numa_cells_allocation_strategy',
    'subset': 'host_subset_size',
    'shuffle': 'shuffle_best_same_weighed_hosts',
    'filters': 'enabled_filters',
    'weighers': 'weight_classes',
}
DEFAULT = 'default'
"""The policy text of nova's defaults."""
NOTHING: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
FLAVORS, MOST_FLAVORS = 'keep_room_flavors', 32
KEEP_ROOM = ('keep_room', MULTIPLIER.format('keep_room'))
"""Words that turn KeepRoom on."""


@dataclass(frozen=True)
class Policy:
    """Options, and the filters and weighers that they make."""

    name: str
    conf: cfg.ConfigOpts
    profile: Profile


def parse(text: str) -> PolicyText:
    """Return the name and the text of ``name=text``. Raises errors.OptionError."""
    name, equals, rest = text.partition('=')
    if not equals or not name.strip() or '/' in name:
        raise _no_policy(text, 'there is no name and no =')
    return PolicyText(name.strip(), rest.strip())


def policy_of(
    text: PolicyText,
    flavors: Sequence[str] = (),
    recorded: Mapping[str, Mapping[str, Any]] = NOTHING,
    public: Sequence[str] = (),
) -> Policy:
    """Make a policy. Raises errors.SetupError.

    A word without a colon is a configuration file, or ``default``. Without such a word
    the policy begins with the ``recorded`` options. Other words are ``option:value`` of
    [filter_scheduler]; ``+`` separates the values of a list. KeepRoom without flavors
    gets ``flavors`` where a word turns it on, else the ``public`` ones.
    """
    words = [word.strip() for word in text.text.split(',') if word.strip()]
    bases = [word for word in words if ':' not in word]
    conf = _configuration([word for word in bases if word != DEFAULT])
    for group, options in () if bases else recorded.items():
        of_group = None if group == 'DEFAULT' else group
        for name, value in options.items():
            if name in (conf if of_group is None else conf[group]):
                conf.set_override(name, value, of_group)
    for word in words:
        if ':' in word:
            _set(conf, word)
    if not conf[GROUP][FLAVORS]:
        names = [word.partition(':')[0] for word in words]
        given = public if set(names).isdisjoint(KEEP_ROOM) else flavors
        conf.set_override(FLAVORS, list(given[:MOST_FLAVORS]), GROUP)
    return Policy(text.name, conf, plugins.profile_from_conf(conf))


def content_of(text: PolicyText) -> str:
    """Return all that decides a policy: its words, and what its files hold. Raises
    errors.OptionError."""
    words = [word.strip() for word in text.text.split(',')]
    try:
        held = [
            Path(word).read_text(encoding='utf-8')
            for word in words
            if word and ':' not in word and word != DEFAULT
        ]
    except (OSError, UnicodeDecodeError) as problem:
        raise _no_policy(text.text, str(problem)) from problem
    return '\0'.join([text.text, *held])


def _no_policy(text: str, problem: str) -> errors.OptionError:
    remedy = 'Give <name>=<option>:<value>,... or <name>=<configuration file>'
    return errors.OptionError('--policy', f'{text}: {problem}', remedy)


def _configuration(files: Sequence[str]) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    opts.register(conf)
    try:
        conf([], project='nova', default_config_files=list(files))
    except (cfg.ConfigFilesNotFoundError, cfg.ConfigFileParseError) as problem:
        raise _no_policy(', '.join(files), str(problem)) from problem
    return conf


def option_of(name: str) -> str:
    """Return the option that a word names, if there is one: of [filter_scheduler], or
    with its group before a dot."""
    return SHORT.get(name) or MULTIPLIER.format(name)


def _set(conf: cfg.ConfigOpts, word: str) -> None:
    name, _, value = word.partition(':')
    named = [each.rpartition('.') for each in (name, option_of(name))]
    groups = [(group or GROUP, option) for group, _, option in named]
    known = [(group, o) for group, o in groups if group in conf and o in conf[group]]
    if not known:
        raise _no_policy(word, f'[{GROUP}] has no option {name}')
    group, option = known[0]
    is_list = isinstance(conf[group][option], list)
    given = value.split('+') if is_list else value
    try:
        conf.set_override(option, given, group)
    except ValueError as problem:
        raise _no_policy(word, str(problem)) from problem

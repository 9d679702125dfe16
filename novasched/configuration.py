# SPDX-License-Identifier: Apache-2.0
"""Configuration files: reading them, and names in them that are misspelt."""

from __future__ import annotations

import glob
import itertools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from oslo_config import cfg

from novasched import errors

OTHERS = frozenset({'oslo_messaging_amqp', 'oslo_messaging_pika', 'oslo_messaging_zmq'})
"""Groups that other releases and services have, and that resemble one known here."""

OTHER_OPTIONS = frozenset(
    {('DEFAULT', 'default_thread_pool_size'), ('DEFAULT', 'shutdown_timeout')}
)
"""Options that other services have, and that resemble one known here."""


def read(
    conf: cfg.ConfigOpts,
    argv: Sequence[str],
    service: str,
    *,
    prog: str | None = None,
) -> None:
    """Read the files that ``argv`` names, or those of a service of nova.

    Raises errors.OptionError for a file or directory that cannot be read, and
    oslo_config.cfg.Error for one that makes no sense.
    """
    files = _named('--config-file', argv) or cfg.find_config_files('nova', service)
    directories = _named('--config-dir', argv) or cfg.find_config_dirs('nova', service)
    for path in files:
        _try_file('--config-file', path)
    for path in directories:
        _try_directory('--config-dir', path)
    conf(
        list(argv),
        project='nova',
        prog=prog or service,
        default_config_files=files,
        default_config_dirs=directories,
    )
    _check_references(conf)


def _check_references(conf: cfg.ConfigOpts) -> None:
    """Raise errors.OptionError for a URL or password in which a $ names no option.

    What oslo.config raises holds what is behind the $: a part of the password.
    """
    for group, options in _sections(conf):
        if group != 'DEFAULT' and group not in conf:
            continue
        values = conf if group == 'DEFAULT' else conf[group]
        for name, given in options.items():
            is_secret = 'password' in name or any('://' in value for value in given)
            if is_secret and any('$' in value for value in given) and name in values:
                _check_reference(values, group, name)


def _check_reference(values: Any, group: str, name: str) -> None:
    try:
        values[name]
    except (cfg.NoSuchOptError, cfg.NoSuchGroupError, cfg.TemplateSubstitutionError):
        problem = 'what stands behind a $ in its value is no option'
        remedy = 'Write $$ for a $'
        raise errors.OptionError(f'[{group}] {name}', problem, remedy) from None


def copied(
    conf: cfg.ConfigOpts, known: Mapping[str, Sequence[cfg.Opt]]
) -> cfg.ConfigOpts:
    """Return a configuration of its own that knows these options, by group.

    Its values are those of the files that ``conf`` has read, and what else ``conf`` has
    been given for options that it knows.
    """
    made = cfg.ConfigOpts()
    for group, opts in known.items():
        made.register_opts(opts, None if group == 'DEFAULT' else group)
    files, directories = (
        list(conf[name] or ()) if name in conf else []
        for name in ('config_file', 'config_dir')
    )
    made(
        [],
        project='nova',
        default_config_files=files,
        default_config_dirs=directories,
    )
    for group, opts in known.items():
        name = None if group == 'DEFAULT' else group
        for opt in opts:
            try:
                value = _value(conf, name, opt.dest)
            except (cfg.NoSuchOptError, cfg.NoSuchGroupError):
                continue
            if value != _value(made, name, opt.dest):
                made.set_override(opt.dest, literal(value), name)
    return made


def _value(conf: cfg.ConfigOpts, group: str | None, name: str) -> Any:
    return conf[name] if group is None else conf[group][name]


def literal(value: Any) -> Any:
    """Return a value in which nothing is to be filled in."""
    if isinstance(value, str):
        return value.replace('$', '$$')
    return [literal(each) for each in value] if isinstance(value, list) else value


def arguments(argv: Sequence[str]) -> list[str]:
    """Return those arguments that name configuration files and directories."""
    return [
        f'{option}={path}'
        for option in ('--config-file', '--config-dir')
        for path in _named(option, argv)
    ]


def _named(option: str, argv: Sequence[str]) -> list[str]:
    apart = [path for word, path in itertools.pairwise(argv) if word == option]
    start = f'{option}='
    return apart + [w.removeprefix(start) for w in argv if w.startswith(start)]


def _try_file(option: str, path: str) -> None:
    try:
        with open(os.path.expanduser(path), encoding='utf-8') as file:
            file.read()
    except OSError as problem:
        raise _unreadable(option, path, str(problem.strerror)) from problem
    except UnicodeDecodeError as problem:
        raise _unreadable(option, path, f'it is no UTF-8 text: {problem}') from problem


def _try_directory(option: str, path: str) -> None:
    """Look into a directory: oslo.config takes one that it cannot read to be empty."""
    try:
        names = os.listdir(os.path.expanduser(path))
    except OSError as problem:
        raise _unreadable(option, path, str(problem.strerror)) from problem
    for name in sorted(names):
        if name.endswith('.conf'):
            _try_file(option, os.path.join(path, name))


def _unreadable(option: str, path: str, problem: str) -> errors.OptionError:
    return errors.OptionError(
        option, f'{path}: {problem}', 'Name what this user can read'
    )


def misspelt(
    conf: cfg.ConfigOpts, known: Mapping[str, Collection[str]]
) -> Iterator[str]:
    """Yield a line for each group and option that is spelt nearly as a known one.

    ``known`` are the options by group. nova.conf is shared with services whose
    options are not known here, so what resembles none of these is no mistake.
    """
    for group, names in _held(conf).items():
        if group in known:
            for name in sorted(names - set(known[group])):
                yield from _misspelt_option(group, name, known[group])
        elif group not in OTHERS and (meant := errors.closest(group, known)):
            yield (
                f'[{group}] is no group of options and does nothing. '
                f'Did you mean [{meant}]?'
            )


def _misspelt_option(group: str, name: str, known: Collection[str]) -> Iterator[str]:
    meant = errors.did_you_mean(name, known)
    if meant and (group, name) not in OTHER_OPTIONS:
        yield f'[{group}] {name} is no option and does nothing.{meant}'


def _held(conf: cfg.ConfigOpts) -> dict[str, set[str]]:
    """Return the options that stand in the files, by group."""
    held: dict[str, set[str]] = {}
    for group, options in _sections(conf):
        held.setdefault(group, set()).update(options)
    return held


def _sections(conf: cfg.ConfigOpts) -> Iterator[tuple[str, Mapping[str, list[str]]]]:
    """Yield the groups of each file, and their options with the values there."""
    paths = list(conf.config_file or ())
    for directory in conf.config_dir or ():
        paths += sorted(glob.glob(os.path.join(directory, '*.conf')))
    for path in paths:
        sections: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(path, sections).parse()
        for group, options in sections.items():
            # As oslo.config does: groups are written as one likes.
            yield group if group == 'DEFAULT' else group.lower(), options

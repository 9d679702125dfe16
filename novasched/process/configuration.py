# SPDX-License-Identifier: Apache-2.0
"""Configuration files: reading them, and names in them that are misspelt."""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from oslo_config import cfg, types

from novasched import errors
from novasched.compat.removed_options import instead_of

_OTHERS = (
    'api audit_middleware_notifications barbican barbican_service_user cinder '
    'conductor console consoleauth cors cyborg devices ephemeral_storage_encryption '
    'glance guestfs hyperv image_cache ironic key_manager keystone keystone_authtoken '
    'libvirt manila mks nova_sys_admin os_brick os_vif_linux_bridge os_vif_ovs '
    'oslo_concurrency oslo_limit oslo_messaging_amqp oslo_messaging_pika '
    'oslo_messaging_zmq oslo_middleware oslo_middleware_tracing oslo_policy '
    'oslo_versionedobjects privsep privsep_osbrick profiler quota rdp remote_debug '
    'serial_console spice ssl vault vendordata_dynamic_auth '
    'vif_plug_linux_bridge_privileged vif_plug_ovs_privileged vmware vnc wsgi zvm'
)
OTHERS = frozenset(_OTHERS.split())
"""Groups that other programs of nova, their libraries and other releases have."""
FAMILIES = re.compile('(mdev|vgpu|neutron_physnet|profiler)_.+|neutron_tunnel')
"""Groups of nova that are named after something."""

OTHER_OPTIONS = frozenset(
    {('DEFAULT', 'default_thread_pool_size'), ('DEFAULT', 'shutdown_timeout')}
)
"""Options that other services have, and that resemble one known here."""

OWN_GROUPS = frozenset({'filter_scheduler', 'metrics', 'novasched', 'scheduler'})
"""Groups of which no option that is left empty could be used."""

_NO_NUMBER = re.compile(
    r'(?:invalid literal for int\(\) with base \d+|could not convert string to float): '
    '(.*)'
)


def read(
    conf: cfg.ConfigOpts,
    argv: Sequence[str],
    service: str,
    *,
    prog: str | None = None,
) -> None:
    """Read the files that ``argv`` names, or the files of a service of nova.

    Raises errors.OptionError for a file or directory that cannot be read or parsed, and
    oslo_config.cfg.Error for what else is invalid.
    """
    files = _named('--config-file', argv) or cfg.find_config_files('nova', service)
    directories = _named('--config-dir', argv) or cfg.find_config_dirs('nova', service)
    for path in files:
        _try_file('--config-file', path)
    for path in directories:
        _try_directory('--config-dir', path)
    try:
        conf(
            list(argv),
            project='nova',
            prog=prog or service,
            default_config_files=files,
            default_config_dirs=directories,
        )
    except cfg.ConfigFileParseError as problem:
        raise _unparsable(problem) from problem
    _check_references(conf)


def _unparsable(problem: cfg.ConfigFileParseError) -> errors.OptionError:
    """Return an error that names the line; its text may hold a password."""
    found = re.search(r'at (.+):(\d+), (.*?)(: |$)', str(problem))
    if not found:
        return errors.OptionError('--config-file', str(problem), 'Correct it')
    path, number, said, _ = found.groups()
    return errors.OptionError(
        f'{path}, line {number}',
        said[:1].lower() + said[1:],
        'Write options as name = value, below the [group] that they are of',
    )


def _check_references(conf: cfg.ConfigOpts) -> None:
    """Raise errors.OptionError for a URL or password in which a $ names no option.

    What oslo.config raises holds what is behind the $: a part of the password.
    """
    for each in _assignments(conf):
        is_secret = 'password' in each.name or '://' in each.value
        if not (is_secret and '$' in each.value):
            continue
        if each.group != 'DEFAULT' and each.group not in conf:
            continue
        if each.name not in (conf if each.group == 'DEFAULT' else conf[each.group]):
            continue
        try:
            _value(conf, each.group, each.name)
        except (
            cfg.NoSuchOptError,
            cfg.NoSuchGroupError,
            cfg.TemplateSubstitutionError,
        ):
            problem = 'what stands behind a $ in its value is no option'
            option, remedy = f'[{each.group}] {each.name}', 'Write $$ for a $'
            raise errors.OptionError(option, problem, remedy) from None


def register(
    conf: cfg.ConfigOpts, opts: Iterable[tuple[str, Sequence[cfg.Opt]]]
) -> None:
    """Register options with their groups."""
    for group, listed in opts:
        conf.register_opts(listed, None if group == 'DEFAULT' else group)


def copied(
    conf: cfg.ConfigOpts, known: Mapping[str, Sequence[cfg.Opt]]
) -> cfg.ConfigOpts:
    """Return a configuration of its own that knows these options, by group.

    Its values come from the files that ``conf`` has read, and from what else ``conf``
    was given for options that it knows.
    """
    made = cfg.ConfigOpts()
    register(made, known.items())
    files: dict[str, Any] = {
        f'default_{name}s': list(conf[name] or ()) if name in conf else []
        for name in ('config_file', 'config_dir')
    }
    made([], project='nova', **files)
    for group, opts in known.items():
        for opt in opts:
            try:
                value = _value(conf, group, opt.dest)
            except (cfg.NoSuchOptError, cfg.NoSuchGroupError):
                continue
            if value != _value(made, group, opt.dest):
                name = None if group == 'DEFAULT' else group
                made.set_override(opt.dest, literal(value), name)
    return made


def _value(conf: cfg.ConfigOpts, group: str, name: str) -> Any:
    return conf[name] if group == 'DEFAULT' else conf[group][name]


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
    """Yield a line for each group that no program of nova has, and for each option that
    is spelt nearly as a known one.

    ``known`` are the options by group. nova.conf is shared with services whose options
    are not known here, so an option that resembles none of these is no mistake.
    """
    for group, names in held(conf).items():
        unread = sorted(name for name in names if not instead_of(group, name))
        if group in known:
            yield from _misspelt_options(group, unread, known[group])
        elif group not in OTHERS and not FAMILIES.fullmatch(group):
            if meant := errors.closest(group, {*known, *OTHERS}):
                yield (
                    f'[{group}] is no group of options and does nothing. '
                    f'Did you mean [{meant}]?'
                )
            elif unread and group not in conf:  # plugins may have registered theirs
                yield (
                    f'[{group}] is no group of options of nova. Nothing reads '
                    f'{", ".join(unread)} there, unless a plugin does.'
                )


def _misspelt_options(
    group: str, names: Iterable[str], known: Collection[str]
) -> Iterator[str]:
    for name in names:
        meant = errors.did_you_mean(name, known)
        if meant and name not in known and (group, name) not in OTHER_OPTIONS:
            yield f'[{group}] {name} is no option and does nothing.{meant}'


def held(conf: cfg.ConfigOpts) -> dict[str, set[str]]:
    """Return the options that stand in the files, by group."""
    found: dict[str, set[str]] = {}
    for each in _assignments(conf):
        found.setdefault(each.group, set()).update({each.name} - {''})
    return found


def values(conf: cfg.ConfigOpts) -> dict[tuple[str, str], list[str]]:
    """Return the values that stand on the lines of options in the files, by group and
    name, in their order."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in _assignments(conf):
        if each.name:
            found.setdefault((each.group, each.name), []).append(each.value.strip())
    return found


class _Assignment(NamedTuple):
    """An option of a file with the value on its line, or a group, without a name."""

    group: str
    name: str
    path: str
    line: int
    value: str = ''


def _assignments(conf: cfg.ConfigOpts) -> Iterator[_Assignment]:
    """Yield what stands in the files that oslo.config has read, in its order."""
    paths = list(conf.config_file or ())
    for directory in conf.config_dir or ():
        paths += sorted(glob.glob(os.path.join(directory, '*.conf')))
    for path in paths:
        group = ''
        with open(os.path.expanduser(path), encoding='utf-8') as file:
            for number, line in enumerate(file, 1):
                if line.startswith('['):
                    group = line.strip()[1:-1]
                    # As oslo.config does: groups are written as one likes.
                    group = group if group == 'DEFAULT' else group.lower()
                    yield _Assignment(group, '', path, number)
                elif line.strip() and line[0] not in ' \t#;':
                    name, *value = re.split('[:=]', line, maxsplit=1)
                    yield _Assignment(group, name.strip(), path, number, *value)


def invalid(
    conf: cfg.ConfigOpts, listed: Iterable[tuple[str, Sequence[cfg.Opt]]]
) -> Iterator[errors.OptionError]:
    """Read every option that is registered; yield an error for each value that is
    none."""
    places: dict[tuple[str, str], str] = {}
    for group, options in listed:
        for opt in options:
            try:
                value = _value(conf, group, opt.dest)
                if value is not None or opt.default is None or group not in OWN_GROUPS:
                    continue
                problem = 'it has no value'
            except (cfg.NoSuchOptError, cfg.NoSuchGroupError):
                continue
            except (cfg.Error, ValueError) as error:
                problem = str(error)
            places = places or {
                (each.group, each.name): f'{each.path}, line {each.line}: '
                for each in _assignments(conf)
            }
            yield _invalid(group, opt, places, problem)


def _invalid(
    group: str, opt: cfg.Opt, places: Mapping[tuple[str, str], str], problem: str
) -> errors.OptionError:
    names = [(group, opt.dest), (group, opt.name)]
    names += [(old.group or group, old.name or opt.dest) for old in opt.deprecated_opts]
    place = next((places[name] for name in names if name in places), '')
    said = _NO_NUMBER.sub(r'\1 is no number', problem.rpartition(' is not valid: ')[2])
    if opt.secret:
        said = 'its value is not valid'
    return errors.OptionError(
        f'[{group}] {opt.dest}', f'{place}{said}', f'Write {_allowed(opt.type)}'
    )


def _allowed(kind: Any) -> str:
    """Describe the values that a type of oslo.config takes."""
    if isinstance(kind, types.List):
        return f'{_allowed(kind.item_type)}, or several, separated by commas'
    if choices := getattr(kind, 'choices', None):
        return f'one of {", ".join(str(each) for each in choices if each is not None)}'
    if isinstance(kind, types.Boolean):
        return 'true or false'
    if isinstance(kind, types.Number):
        words = 'a whole number' if isinstance(kind, types.Integer) else 'a number'
        return f'{words}{_bounds(kind.min, kind.max)}'
    return 'text' if isinstance(kind, types.String) else str(kind)


def _bounds(least: float | None, most: float | None) -> str:
    if least is None:
        return '' if most is None else f' of at most {most}'
    return f' of at least {least}' if most is None else f' from {least} to {most}'

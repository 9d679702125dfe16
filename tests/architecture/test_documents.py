# SPDX-License-Identifier: Apache-2.0
"""Documents are run: each block of the pages by its language, and the names in them.

A block that cannot be run has a comment before it that says why:
``<!-- not run: it needs a MySQL server -->``.
"""

from __future__ import annotations

import configparser
import functools
import json
import re
import shutil
import subprocess
import tomllib
from typing import NamedTuple

import pytest
import yaml
from oslo_concurrency import opts as concurrency
from oslo_config import cfg
from oslo_log import _options as logging
from oslo_log import log
from oslo_policy import opts as policy

from novasched.cmd import status
from novasched.console.settings import ConsoleSettings
from novasched.manage.program import FAILED
from novasched.manage.status import CheckCode, Status, options
from novasched.observability import catalogue
from novasched.observability.settings import Settings
from novasched.process import configuration, opts
from tests.functional.prometheus import SERIES, promtool
from tests.live.servers.process import completed
from tests.support.suite.documented import (
    INSTALLED,
    ROOT,
    check_command,
    check_flags,
    check_path,
    commands_in,
)

PAGES = [
    *sorted(ROOT.glob('*.md')),
    *(p for p in sorted((ROOT / 'docs').rglob('*.md')) if p.parent.name != 'lab'),
]
"""The lab has options and commands of its own."""
FENCE = re.compile(
    r'(?:^<!-- not run: (?P<why>[^\n]+) -->\n)?'
    r'^```(?P<language>\w*|\{\w+\}[^\n]*)\n(?P<text>.*?)^```$',
    re.M | re.S,
)
INDENTED = re.compile(r'\n\n    [^\n]+')
SPAN = re.compile(r'`([^`]+)`')
ELSEWHERE = {
    'Exceeded maximum number of retries': 'the conductor of nova',
    'Endpoint does not support RPC version 1.0. Attempted method: find':
        'oslo.messaging, of a nova-scheduler',
}  # fmt: skip
"""Lines that other programs write."""
METRICS = {each.name for each in (*catalogue.ALL, catalogue.FREE_SLOTS)} | SERIES.keys()
NO_METRICS = {
    'novasched_', 'novasched_console', 'novasched_lab', 'novasched_read',
    'novasched_shadow',
}  # fmt: skip
"""Their prefix, a group of options, a package and two accounts."""
NO_PATHS = {'novasched/decisions', 'build/docs/html/index.html'}
"""What is below state_path, and what is made."""
ATTRIBUTES = {'run_filter_once_per_request'}
"""Of the classes of plugins."""


class Block(NamedTuple):
    """A fenced block, and why it is not run."""

    where: str
    language: str
    text: str
    why: str | None


def blocks_of(page, text):
    for found in FENCE.finditer(text):
        line = text.count('\n', 0, found.start('language')) + 1
        yield Block(f'{page}:{line}', found['language'], found['text'], found['why'])


def page_id(page):
    return str(page.relative_to(ROOT))


def read(page):
    return page.read_text()


def prose_of(text):
    return FENCE.sub('', text)


def spans_of(text):
    return [' '.join(each.split()) for each in SPAN.findall(prose_of(text))]


@functools.cache
def known():
    """Every option that a page may name, of libraries, too: option by (group, name)."""
    found = {}
    libraries = (logging, policy, concurrency)
    listed = [each for library in libraries for each in library.list_opts()]
    for group, each in [*opts.list_opts(), *listed]:
        found.update({(group or 'DEFAULT', opt.dest): opt for opt in each})
    return found


@functools.cache
def names():
    groups = opts.known()
    return {(group, name) for group, each in groups.items() for name in each} | set(
        known()
    )


def run_ini(text, tmp_path):
    """Read a file as the scheduler and `upgrade check` do."""
    path = tmp_path / 'nova.conf'
    path.write_text(text)
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    opts.register(conf)
    configuration.read(conf, ['--config-file', str(path)], 'nova-scheduler')
    parser = configparser.ConfigParser(default_section='', interpolation=None)
    parser.read_string(text)
    for group in parser.sections():
        for name in parser[group]:
            assert (group, name) in names(), f'there is no [{group}] {name}'
            assert (conf if group == 'DEFAULT' else conf[group])[name] is not None
    program = Status(status.COMMANDS)
    program.conf = conf
    verdict = options(program)
    assert verdict.code == 0, verdict.details
    Settings.from_conf(conf)
    ConsoleSettings.from_conf(conf)


def run_python(text, _):
    """Run it; a file that it names is compiled, and run by tests of that page."""
    code = compile(text, 'page', 'exec')
    if not re.match(r'# \w+\.py', text):
        exec(code, {})


def run_toml(text, _):
    assert tomllib.loads(text)['build-system']['build-backend']


def run_json(text, _):
    json.loads(text)


def run_yaml(text, tmp_path):
    """Load it; what Prometheus reads is checked by Prometheus."""
    found = yaml.safe_load(text)
    for path in re.findall(INSTALLED + r'[\w./]+', text):
        check_path(path)
    if 'scrape_configs' in found and shutil.which('promtool'):
        installed = f'{INSTALLED}share/novasched'
        here = tmp_path / 'prometheus.yml'
        here.write_text(text.replace(installed, str(ROOT / 'etc' / 'novasched')))
        promtool('check', 'config', here)


def run_shell(text, _):
    """Have Bash parse it, and our programs the words that they get."""
    subprocess.run(['bash', '-n'], input=text, text=True, check=True)
    for words in commands_in(text):
        check_command(words)
    for path in re.findall(INSTALLED + r'[\w./-]+', text):
        check_path(path)


def run_console(text, _):
    """Run the lines with a prompt as those of a script; the rest is what they print."""
    asked = [line[2:] for line in text.splitlines() if line.startswith('$ ')]
    assert asked
    run_shell('\n'.join(asked) + '\n', _)


def run_usage(text, _):
    """Compare a synopsis with the options of the command."""
    for line in re.split(r'\n(?! )', text.strip()):
        check_flags(line)


def run_log(text, _):
    """Find the words of each line before what differs."""
    for line in re.findall(r'^([A-Z][a-z]+ [^(:\d]+)', text, re.M):
        assert line in source(), line


RUNNERS = {
    'console': run_console,
    'ini': run_ini,
    'json': run_json,
    'log': run_log,
    'python': run_python,
    'sh': run_shell,
    'toml': run_toml,
    'usage': run_usage,
    'yaml': run_yaml,
}


@functools.cache
def source():
    """The modules, with texts that are written in several pieces joined."""
    files = sorted((ROOT / 'novasched').rglob('*.py'))
    text = '\n'.join(path.read_text() for path in files)
    return re.sub(r'[\'"]\s*\n\s*f?[\'"]', '', text)


def is_generated(text):
    return '<!-- Made by tools/reference' in text


@pytest.mark.parametrize('page', PAGES, ids=page_id)
def test_every_block_is_run_or_says_why_not(page, tmp_path):
    text = read(page)
    for block in blocks_of(page_id(page), text):
        if block.language.startswith('{'):
            continue  # a directive, which tests/architecture/test_site.py runs
        if block.why is None or block.language == 'console':
            assert block.language in RUNNERS, f'{block.where}: what is it?'
            try:
                RUNNERS[block.language](block.text, tmp_path)
            except (Exception, SystemExit) as problem:
                raise AssertionError(f'{block.where}: {problem}') from problem
    assert INDENTED.findall(prose_of(text)) == [], 'fence it, with its language'


def test_a_block_without_language_is_not_run(tmp_path):
    (block,) = blocks_of('page', 'Text\n\n```\nwhat is it\n```\n')
    assert block.language not in RUNNERS


@pytest.mark.parametrize(
    ('language', 'text'),
    [
        pytest.param('ini', '[healthcheck]\nuri = tcp://c:1  # health\n', id='text'),
        pytest.param('ini', '[scheduler]\nworkerz = 2\n', id='an option'),
        pytest.param('ini', '[scheduler]\nworkers = two\n', id='a value'),
        pytest.param('ini', '[shceduler]\nworkers = 2\n', id='a group'),
        pytest.param('ini', '[DEFAULT]\nhosd = c1\n', id='a default'),
        pytest.param('sh', 'novasched capacity --by rack\n', id='a choice'),
        pytest.param('sh', 'novasched-status upgrade chek\n', id='a command'),
        pytest.param('sh', 'novasched-scheduler --workers 2\n', id='a flag'),
        pytest.param('sh', 'tools/chekc\n', id='a tool'),
        pytest.param('sh', 'true | systemtcl stop it\n', id='a program'),
        pytest.param('sh', 'if true\n', id='half a script'),
        pytest.param('sh', 'cp /opt/novasched/share/a.service /\n', id='a path'),
        pytest.param('console', 'novasched top\n', id='no prompt'),
        pytest.param('usage', 'novasched capacity [--racks]\n', id='a synopsis'),
        pytest.param('log', 'Starting the engine (version 1)\n', id='a line'),
        pytest.param('json', '{"a": ...}', id='half an answer'),
        pytest.param('yaml', 'a: [', id='half a list'),
        pytest.param('python', '# a.py\ndef f(:\n', id='half a function'),
        pytest.param('python', 'import novasched.none\n', id='a module'),
        pytest.param('toml', '[project]\nname = "x"\n', id='setuptools not named'),
    ],
)  # fmt: skip
def test_fault_in_a_block_is_found(tmp_path, language, text):
    with pytest.raises((Exception, SystemExit)):
        RUNNERS[language](text, tmp_path)


@pytest.mark.parametrize('page', PAGES, ids=page_id)
def test_options_that_a_page_names_exist(page):
    text = prose_of(read(page))
    for group, name, value in re.findall(
        r'`\[(\w+)\]\s+(\w+)(?:\s*=\s*([^`]*))?`', text
    ):
        assert (group, name) in names(), f'there is no [{group}] {name}'
        if value:
            known()[group, name].type(value)
    said = r'`\[(\w+)\]\s+(\w+)`,\s(\d+) \w+\sby\sdefault'
    for group, name, default in re.findall(said, text):
        assert known()[group, name].default == float(default), name
    for name in re.findall(r'`([a-z_]+) = [^`]*`', text):
        if '_' in name and name not in ATTRIBUTES:
            assert {n for _, n in names() if n == name}, f'there is no option {name}'


@pytest.mark.parametrize(
    ('page', 'group'), [('decisions', 'novasched'), ('console', 'novasched_console')]
)
def test_tables_of_options_have_the_defaults(page, group):
    text = read(ROOT / f'docs/reference/{page}.md')
    (table,) = re.findall(
        r'^\| option .*\| default \|.*\n\|-.*\n((?:\|.*\n)+)', text, re.M
    )
    for row in table.splitlines():
        named, default = row.split(' | ')[:2]
        for name in SPAN.findall(named):
            opt = known()[group, name]
            value = opt.sample_default or opt.default
            shown = ','.join(value) if isinstance(value, list) else value
            assert default.strip('`') in (str(shown), 'none'), name
            assert (default == 'none') == (not shown), name


@pytest.mark.parametrize('page', PAGES, ids=page_id)
def test_metrics_that_a_page_names_exist(page):
    found = set(re.findall(r'\bnovasched_[a-z_]+(?!\w)', prose_of(read(page))))
    assert sorted(found - METRICS - NO_METRICS) == []


@pytest.mark.parametrize('page', PAGES, ids=page_id)
def test_commands_that_a_page_names_exist(page):
    for span in spans_of(read(page)):
        if re.match(r'novasched(-(manage|status|console|scheduler))? ', span):
            check_flags(span)


@pytest.mark.parametrize('page', PAGES, ids=page_id)
def test_paths_and_links_of_a_page_lead_somewhere(page):
    text = read(page)
    for span in [] if is_generated(text) else spans_of(text):
        is_path = re.fullmatch(r'(?:[\w.-]+/)+[\w.-]*', span)
        if (is_path or span.startswith(INSTALLED)) and span not in NO_PATHS:
            check_path(span.split()[0])
    for target in re.findall(r'\]\(([^)\s]+)\)', prose_of(text)):
        path, _, anchor = target.partition('#')
        if '://' in path:
            continue
        there = page.parent / path if path else page
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there), target


def anchors(page):
    """The names of its headings, as GitHub makes them."""
    headings = re.findall(r'^#+ (.+)$', FENCE.sub('', page.read_text()), re.M)
    return {re.sub(r'[^\w -]', '', h.lower()).replace(' ', '-') for h in headings}


@pytest.mark.parametrize('page', PAGES, ids=page_id)
def test_lines_that_a_page_quotes_are_written_somewhere(page):
    for span in spans_of(read(page)):
        is_sentence = re.fullmatch(r"[A-Z][a-z]+ [\w ,.'<>:-]+", span)
        if is_sentence and len(span.split()) > 2 and span not in ELSEWHERE:
            for piece in re.split(r'\.\.\.|<\w+>|(?<=\.) ', span):
                assert piece.strip() in source(), span


def test_codes_of_the_upgrade_check_are_its_own():
    page = read(ROOT / 'docs' / 'replace-nova-scheduler.md')
    _, _, table = page.partition('| exit code | means | do |\n')
    codes = re.findall(r'^\| (\d+) \|', table.partition('\n\n')[0], re.M)
    assert codes == [str(code) for code in (*CheckCode, FAILED)]


UNITS = sorted((ROOT / 'etc' / 'novasched').glob('*.service'))


@pytest.mark.parametrize('unit', UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_a_program_of_ours_without_privileges(unit, tmp_path):
    text = unit.read_text().replace('\\\n', ' ')
    lines = dict(re.findall(r'^(\w+)=(.*)$', text, re.M))
    (words,) = commands_in(lines['ExecStart'])
    check_command(words)
    assert lines['CapabilityBoundingSet'] == ''
    assert lines['NoNewPrivileges'] == 'yes'
    assert lines['SystemCallFilter'] == '@system-service'
    assert lines['SystemCallErrorNumber'] == 'EPERM'
    if shutil.which('systemd-analyze'):
        # Programs are not installed here.
        here = tmp_path / unit.name
        here.write_text(re.sub(INSTALLED + r'bin/[\w-]+', '/bin/true', text))
        done = completed(['systemd-analyze', 'verify', '--man=no', here])
        assert (done.returncode, done.stderr) == (0, '')

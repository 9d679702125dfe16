# SPDX-License-Identifier: Apache-2.0
"""What all commands share: exit codes, tables, reports and the configuration."""

import json

import pytest
import yaml
from oslo_config import cfg

from novasched import errors, printable
from novasched.commands.base import (
    ANSWER_IS_NO,
    PIPE_WIDTH,
    ReportCommand,
    TableCommand,
    fitted,
)
from tests.support.tables.cases import cases
from tests.unit.commands.played import App, run

UUID = 'c0000000-0000-4000-8000-000000000001'


@cases(
    ('width', 'expected'),
    ('all fits', 200, [UUID, 'a-long-name', 'A fault in two lines']),
    ('the widest is cut first', 70, [UUID, 'a-long-name', 'A fault in t…']),
    (
        'the ID is cut last',
        60,
        ['c0000000-0000-4000-8000-000000000…', 'a-long-…', 'A fault…'],
    ),
    ('no less than this is left', 10, ['c000000…', 'a-long-…', 'A fault…']),
)
def test_tables_are_cut_to_fit(width, expected):
    rows = [[UUID, 'a-long-name', 'A fault\nin two lines']]
    names = ('ID', 'Name', 'Fault')
    assert fitted(names, rows, width, frozenset(names)) == [expected]


class Fruits(TableCommand):
    """A table."""

    code = ANSWER_IS_NO

    def take_action(self, parsed_args):
        self.warn('there are more')
        names = ('Name', 'Colour')
        return names, [('apple', None if self.is_short(parsed_args) else 'red' * 60)]


def test_a_table_has_an_exit_code_and_warnings():
    code, found, said = run(Fruits)
    assert (code, said) == (ANSWER_IS_NO, 'warning: there are more\n')
    assert found == [{'Name': 'apple', 'Colour': 'red' * 60}]


def test_a_table_is_short_unless_more_is_asked_for():
    _, short, _ = run(Fruits, form='table')
    _, long, _ = run(Fruits, '--long', form='table')
    _, chosen, _ = run(Fruits, '-c', 'Colour', form='table')
    assert '| apple | -' in short
    assert 'red' * 60 in long
    assert 'redredr…' in chosen
    assert {len(line) for line in chosen.splitlines()} == {PIPE_WIDTH}


class Weather(ReportCommand):
    """A report."""

    def report(self, parsed_args):
        self.code = ANSWER_IS_NO
        return {'rain': ['today', 'always']}

    def text(self, answer, style):
        colour = 'blue' if style.has_colour else 'plain'
        return f'{colour} rain {answer["rain"][0]}'


def test_a_report_is_text_json_or_yaml():
    expected = {'v': 1, 'rain': ['today', 'always']}
    code, found, _ = run(Weather)
    assert (code, found) == (ANSWER_IS_NO, expected)
    assert json.dumps(found) == json.dumps(expected)
    assert yaml.safe_load(run(Weather, form='yaml')[1]) == expected
    assert run(Weather, form='text')[1] == 'plain rain today\n'


@pytest.fixture
def nova_conf(tmp_path):
    path = tmp_path / 'nova.conf'
    path.write_text('[fruit]\ncolour = red\n')
    return path


OPTS = {'fruit': [cfg.StrOpt('colour')], 'DEFAULT': [cfg.StrOpt('shape')]}


def test_a_configuration_has_the_options_that_are_asked_for(nova_conf):
    command = Fruits(App([nova_conf]), None)
    conf = command.configuration(OPTS)
    assert (conf.fruit.colour, conf.shape) == ('red', None)


def test_a_configuration_that_cannot_be_read_is_named(tmp_path):
    command = Fruits(App(config_dir=[tmp_path / 'none']), None)
    with pytest.raises(errors.OptionError, match='--config-dir'):
        command.configuration(OPTS)


HOSTILE = 'a\x1b[1m\x9b\u202e\x7f\nforged'
SHOWN = r'a\x1b[1m\x9b\u202e\x7f\nforged'


class Tenants(TableCommand):
    """A table of what tenants write."""

    def take_action(self, parsed_args):
        self.warn(HOSTILE)
        return ('Name',), [(HOSTILE,)]


class Tenant(ReportCommand):
    """A report on what a tenant writes."""

    def report(self, parsed_args):
        return {'hints': {HOSTILE: HOSTILE}}

    def text(self, answer, style):
        return style.paint(*answer['hints'], '1')


@pytest.mark.parametrize('form', ['table', 'csv', 'value'])
def test_a_table_shows_controls(form):
    _, text, said = run(Tenants, '--long', form=form)
    assert SHOWN in text.replace('\\\\', '\\')
    assert said == f'warning: {SHOWN}\n'
    assert not set('\x1b\x9b\u202e\x7f').intersection(text)


def test_a_report_shows_controls():
    _, text, _ = run(Tenant, form='text')
    assert text == SHOWN + '\n'


@pytest.mark.parametrize(
    ('form', 'load'), [('json', json.loads), ('yaml', yaml.safe_load)]
)
def test_programs_get_what_a_tenant_wrote(form, load):
    for kind, expected in (
        (Tenant, {'v': 1, 'hints': {HOSTILE: HOSTILE}}),
        (Tenants, [{'Name': HOSTILE}]),
    ):
        app = App()
        below, app.stdout = app.stdout, printable.Stream(app.stdout)
        command = kind(app, None)
        command.run(command.get_parser('novasched').parse_args(['-f', form]))
        assert load(below.getvalue()) == expected

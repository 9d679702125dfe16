# SPDX-License-Identifier: Apache-2.0
"""Controls in texts from outside are shown, in terminals and in logs."""

import io
import json
import logging
import sys

import pytest
from oslo_config import cfg
from oslo_log import formatters, log

from novasched import printable
from novasched.inspection.questions.reports import Stranded
from novasched.inspection.texts import lines as text
from tests.support.tables.cases import cases

CONTROLS = [
    *(chr(code) for code in [*range(9), *range(11, 32), *range(127, 160)]),
    *'\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e',
    *'\u2066\u2067\u2068\u2069\ud800\udfff',
]


@cases(
    'given, expected',
    ('C0', '\x1b[2J\x07', r'\x1b[2J\x07'),
    ('DEL', '\x7f', r'\x7f'),
    ('C1', '\x9b31m', r'\x9b31m'),
    ('bidirectional', '\u202edoog', r'\u202edoog'),
    ('lines', 'a\nb\r\u2028', r'a\nb\r\u2028'.replace(r'\r', r'\x0d')),
    ('a style of ours', '\x1b[1mx', r'\x1b[1mx'),
    ('text stays', 'é\t日本\xa0…🙂', 'é\t日本\xa0…🙂'),
)
def test_a_line_shows_controls(given, expected):
    assert printable.line(given) == expected


def test_lines_keep_newlines_alone():
    shown = printable.lines('a\n\tb' + ''.join(CONTROLS))
    assert shown.startswith('a\n\tb\\x00')
    assert not any(each in shown for each in CONTROLS)


def test_values_are_shown_wherever_they_stand():
    given = {'\x1b': [('\n', 1), None, {'a': text.Style(has_colour='\x07')}]}
    expected = {'\\x1b': [('\\n', 1), None, {'a': text.Style(has_colour='\\x07')}]}
    assert printable.values(given) == expected
    stranded = Stranded('\n', 1, 2)
    assert printable.values([stranded]) == [Stranded('\\n', 1, 2)]


@cases(
    'text, masked',
    ('no location', 'none:///', 'none:///'),
    ('a password', 'rabbit://u:p@h:1/v', 'rabbit://u:****@h:1/v'),
    ('no password', 'rabbit://u@h/v', 'rabbit://u@h/v'),
    ('a slash in it', 'a://u:p/q@h:1/v', 'a://u:****@h:1/v'),
    ('an @ in it', 'a://u:p@q@h/v', 'a://u:****@h/v'),
    ('PyMySQL', 'a://h/v?passwd=p&x=1', 'a://h/v?passwd=****&x=1'),
    ('in the query', 'a://h/v?password=p', 'a://h/v?password=****'),
    ('a file', 'sqlite:////abs/x', 'sqlite:////abs/x'),
)
def test_mask(text, masked):
    assert printable.mask(text) == masked


class TestStream:
    def written(self, *texts):
        below = io.StringIO()
        stream = printable.Stream(below)
        for each in texts:
            assert stream.write(each) == len(each)
        stream.flush()
        return below.getvalue()

    def test_layout_stays_and_controls_are_shown(self):
        written = self.written('a\n\tb\n', *CONTROLS)
        assert written.startswith('a\n\tb\n\\x00')
        assert not any(each in written for each in CONTROLS)

    @pytest.mark.parametrize('code', [text.BOLD, text.DIM, text.GREEN, text.RED])
    def test_our_styles_stay(self, code):
        painted = text.Style(has_colour=True).paint('x', code)
        assert self.written(painted) == painted != 'x'

    @pytest.mark.parametrize('escape', ['\x1b[8m', '\x1b[2J', '\x1b]0;x\x07', '\x1b['])
    def test_other_escapes_are_shown(self, escape):
        assert '\x1b' not in self.written(escape)

    def test_json_stays_valid_and_lossless(self):
        given = {each: each for each in [*CONTROLS, '\n']}
        assert json.loads(self.written(json.dumps(given))) == given


CONTEXT = '%(request_id)s %(user_name)s %(user_identity)s %(instance)s%(message)s'


def logged(formatter, *args, factory=printable.LogRecord, exc_info=None, **attributes):
    """A message of a logger, as a formatter makes it of the record of a factory."""
    record = factory('a', logging.ERROR, __file__, 1, *args, exc_info)
    vars(record).update(attributes)
    return formatter.format(record)


def context_formatter():
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override('logging_context_format_string', CONTEXT)
    return formatters.ContextFormatter(config=conf)


FORGED = 'x\n2026-01-01 INFO forged \x1b[2J\u202e\x9b'
SHOWN = r'x\n2026-01-01 INFO forged \x1b[2J\u202e\x9b'


class Surprise(Exception):
    """An error whose text is from outside."""


class TestLog:
    """A record shows controls, whatever formats it."""

    def test_a_message_and_its_arguments(self):
        plain = logging.Formatter('%(message)s')
        assert logged(plain, FORGED + '%s', (FORGED,)) == SHOWN * 2

    def test_json(self):
        found = json.loads(logged(formatters.JSONFormatter(), '%s', (FORGED,)))
        assert found['message'] == SHOWN

    def test_names_of_a_context(self):
        values = {'request_id': FORGED, 'user_name': FORGED, 'instance': {}}
        made = logged(
            context_formatter(), '%s', ('y',), context=values, instance_uuid=FORGED
        )
        assert made.count('\n') == 0
        assert made.count(SHOWN) >= 3

    def test_a_traceback_keeps_its_lines(self):
        try:
            raise Surprise(FORGED)
        except Surprise:
            made = logged(context_formatter(), 'y', (), exc_info=sys.exc_info())
        assert 'Traceback (most recent call last)' in made.splitlines()[1]
        assert '\x1b' not in made
        assert '\u202e' not in made

    def test_passwords_of_urls_are_masked(self):
        url = 'rabbit://u:se@cret@h/'
        try:
            raise Surprise(url)
        except Surprise:
            made = logged(context_formatter(), '%s', (url,), exc_info=sys.exc_info())
        assert 'cret' not in made
        assert made.count('rabbit://u:****@h/') == 3

    @cases(
        'given',
        ('parts', ('rabbit://%s:%s@%s/', ('u', 'secret', 'h'))),
        ('a format', ('rabbit://u:secret@h/', ())),
        ('an error', ('%s', (OSError('rabbit://u:secret@h/'),))),
    )
    def test_json_shows_a_password_nowhere(self, given):
        made = logged(formatters.JSONFormatter(), *given)
        assert json.loads(made)['message'] == 'rabbit://u:****@h/'
        assert 'secret' not in made

    def test_unformattable_record_is_left_to_the_handler(self):
        with pytest.raises(TypeError):
            logged(logging.Formatter('%(message)s'), '%s %s', ('x',))

    def test_it_is_installed_with_the_log(self):
        logging.setLogRecordFactory(logging.LogRecord)
        printable.in_logs()
        assert logging.getLogRecordFactory() is printable.LogRecord

    def test_colours_of_the_handler_stay(self):
        coloured = logging.Formatter('%(color)s%(message)s')
        record = printable.LogRecord('a', 10, __file__, 1, '\x1b', (), None)
        record.color = '\x1b[00;32m'
        assert coloured.format(record) == '\x1b[00;32m\\x1b'

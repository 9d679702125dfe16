# SPDX-License-Identifier: Apache-2.0
"""Commands that ask a console print what they print of databases and files."""

import contextlib
import http.server
import threading

import pytest

from novasched import errors
from novasched.commands.console_client import BEFORE, AddressedConsole, ask
from novasched.commands.decisions import CountDecisions, ListDecisions
from novasched.commands.explain import ExplainDecision
from novasched.commands.host import ShowHost
from novasched.commands.plan import PlanBoot
from novasched.console import app, login, security, web_server
from novasched.console import cloud as console
from novasched.console.settings import ConsoleSettings
from novasched.decisions.writing import DecisionWriter
from novasched.observability.settings import Address
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.functional.commands import sources
from tests.functional.conftest import Host, named_uuid
from tests.functional.endpoints import HERE
from tests.support.records.stored_records import make_record, write
from tests.unit.commands.played import App, run

HOSTS = (
    Host('h1', zone='az1'),
    Host('h2', zone='az1', disabled=True),
    Host('h3/x', zone='az2', cell='cell2', memory_mb=4096),
)
SMALL = 'vcpus=1,ram=2048,disk=10'
RECORDS = 7


@pytest.fixture
def made(cloud, tmp_path):
    """A cloud, and some decisions; `made.file` is its configuration."""
    directory = tmp_path / 'decisions'
    made = cloud(HOSTS, novasched={'decisions_dir': str(directory)})
    now_s = int(SYSTEM_CLOCK.time())
    writer = DecisionWriter(directory)
    write(
        writer,
        [
            make_record(now_s - n, 'h1' if n % 2 else None, uuid=named_uuid(f's{n}'))
            for n in range(RECORDS)
        ],
    )
    writer.close()
    made.file = tmp_path / 'nova.conf'
    made.file.write_text(f'[novasched]\ndecisions_dir = {directory}\n')
    return made


@contextlib.contextmanager
def served(made, listen, keystone_conf=None):
    """Serve the console of a cloud, by keystone if a configuration is given; yield
    where."""
    settings = ConsoleSettings(listen, has_keystone=keystone_conf is not None)
    with console.opened(made.conf, sources(made)) as reader:
        pages = app.create(reader)
        if keystone_conf is not None:
            login.wrap(pages, keystone_conf)
        security.install(pages, settings)
        with web_server.served(pages, settings) as address:
            yield address


@pytest.fixture
def where(made, tmp_path):
    """The socket of the console of the cloud."""
    listen = Address(path=str(tmp_path / 'console.sock'))
    with served(made, listen):
        yield listen.path


@pytest.mark.parametrize('form', ['json', 'text'])
@pytest.mark.parametrize(
    ('kind', 'words'),
    [
        (ListDecisions, ['--limit', '5']),
        (ListDecisions, ['--result', 'unschedulable', '--since', '1h']),
        (CountDecisions, ['--by', 'result']),
        (ExplainDecision, [named_uuid('s1')]),
        (ExplainDecision, [named_uuid('s2'), '--long']),
    ],
)
def test_console_prints_the_decisions_of_the_files(made, where, kind, words, form):
    if form == 'text' and kind is not ExplainDecision:
        form = 'table'
    own = run(kind, *words, '--local', form=form, app=App(config_file=[made.file]))
    theirs = run(kind, *words, '--console', where, form=form)
    assert theirs[:2] == own[:2]
    assert theirs[0] == 0


def test_long_lists_come_page_by_page(where, monkeypatch):
    monkeypatch.setattr('novasched.commands.decisions.MOST_OF_CONSOLE', 3)
    _, rows, _ = run(ListDecisions, '--console', where)
    assert len({row['id'] for row in rows}) == RECORDS
    _, rows, _ = run(ListDecisions, '--console', where, '--limit', '4')
    assert len(rows) == 4


def test_missing_decision_exits_with_3(where):
    for what in ('d-0000000000000', 'req-none', named_uuid('none')):
        code, answer, _ = run(ExplainDecision, what, '--console', where)
        assert (code, answer['id']) == (3, None)
        assert 'The console has no decision' in answer['text']
    words = '--before', 'd-0000000000', '--console', where
    code, _, said = run(ListDecisions, *words, form='table')
    assert (code, 'No record is kept of a decision d-0000000000' in said) == (3, True)


@pytest.mark.parametrize(
    ('kind', 'words', 'text'),
    [
        (ExplainDecision, ['web-1'], 'Give the uuid'),
        (ExplainDecision, ['d-0000', '--host', 'h1'], 'does not go with --host'),
        (ListDecisions, ['--follow'], 'without --before and --console'),
        (ShowHost, ['h9'], 'knows no h9'),
        (PlanBoot, ['--flavor', 'nonsense'], 'it answers: '),
    ],
)
def test_question_unsuited_to_a_console_is_refused(where, kind, words, text):
    form = 'table' if kind is ListDecisions else 'json'
    with pytest.raises(errors.OptionError, match=text):
        run(kind, *words, '--console', where, form=form)


class Older(http.server.BaseHTTPRequestHandler):
    """A console that reads what it knows, and does not say what that is."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{}')

    def log_message(self, *what):
        """Print nothing."""


def test_older_console_does_not_pass_over_what_it_does_not_know():
    with http.server.HTTPServer((HERE, 0), Older) as server:
        url = f'http://{HERE}:{server.server_port}'
        for given, refused in (({'count': '2'}, ''), ({'group': 'g'}, 'group')):
            thread = threading.Thread(target=server.handle_request)
            thread.start()
            with (
                pytest.raises(errors.OptionError, match=f'does not know {refused}')
                if refused
                else contextlib.nullcontext()
            ):
                ask(AddressedConsole(url), '/plan', given.items(), BEFORE)
            thread.join()


class Odd(http.server.BaseHTTPRequestHandler):
    """A server that is no console, or does not let us in."""

    def do_GET(self):
        self.server.tokens.append(self.headers['X-Auth-Token'])
        self.send_response(int(self.path.split('/')[1]))
        self.end_headers()
        self.wfile.write(b'<html>')

    def log_message(self, *what):
        """Print nothing."""


@pytest.fixture
def odd():
    with http.server.ThreadingHTTPServer((HERE, 0), Odd) as server:
        server.tokens = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_odd_answer_or_address_of_a_console_is_named(odd, tmp_path, monkeypatch):
    monkeypatch.setenv('OS_TOKEN', 'secret')
    url = f'http://{HERE}:{odd.server_port}'
    for path, text in (
        ('401', 'put a token that may look into OS_TOKEN'),
        ('200', 'it answers HTTP 200'),
        ('404', 'it answers HTTP 404'),
        ('502', 'it answers HTTP 502'),
    ):
        with pytest.raises(errors.ConsoleFailed, match=text):
            ask(AddressedConsole(f'{url}/{path}'), '/hosts')
    assert set(odd.tokens) == {'secret'}
    with pytest.raises(errors.ConsoleFailed, match='no such file'):
        ask(AddressedConsole(str(tmp_path / 'none.sock')), '/hosts')
    for wrong in ('ftp://x', 'http://x:port'):
        with pytest.raises(errors.OptionError, match='is no URL of a console'):
            ask(AddressedConsole(wrong), '/hosts')


def test_the_environment_may_name_its_url(made, monkeypatch):
    with served(made, Address(HERE, 0)) as address:
        url = f'http://{HERE}:{address.port}/'
        monkeypatch.setenv('NOVASCHED_CONSOLE', url)
        assert len(run(ListDecisions)[1]) == RECORDS

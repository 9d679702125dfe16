# SPDX-License-Identifier: Apache-2.0
"""``novasched shadow report`` and the decisions of a shadow, of files and a console."""

import pytest

from novasched import errors
from novasched.commands.decisions import CountDecisions, ListDecisions
from novasched.commands.explain import ExplainDecision
from novasched.commands.shadow import ReportShadow
from novasched.console import app, security, web_server
from novasched.console import cloud as console
from novasched.console.settings import ConsoleSettings
from novasched.decisions.comparison import Cause, Verdict
from novasched.decisions.writing import DecisionWriter
from novasched.observability.settings import Address
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.functional.commands import sources
from tests.functional.conftest import Host, named_uuid
from tests.support.records.compared_records import (
    compared_record,
    comparison,
    one_of_each,
)
from tests.support.records.console_answers import SeenPage
from tests.support.records.stored_records import make_record, write
from tests.support.tables.cases import cases
from tests.unit.commands.played import App, run

AGO_S = 600
DIFFERENT = 20
"""Decisions of one_of_each() with a server for which nova chose otherwise."""


@pytest.fixture
def log(tmp_path):
    """The directory of a decision log, and what writes it."""
    writer = DecisionWriter(tmp_path / 'decisions')
    write(writer, [make_record(int(SYSTEM_CLOCK.time()) - 2 * AGO_S)])
    yield writer
    writer.close()


@pytest.fixture
def compared(log):
    now_s = int(SYSTEM_CLOCK.time())
    write(log, one_of_each(now_s - AGO_S, named_uuid))
    log.write_listened(now_s - 7200, now_s - 3600)
    log.write_listened(now_s - 3000, now_s)
    return log


@pytest.fixture
def here(tmp_path):
    """Run a command on the decision log of this machine."""
    conf = tmp_path / 'nova.conf'
    conf.write_text(f'[novasched]\ndecisions_dir = {tmp_path / "decisions"}\n')
    return lambda kind, *words, **more: run(
        kind, *words, app=App(config_file=[conf]), **more
    )


@pytest.fixture
def console_pages(cloud, tmp_path):
    """The pages of a console on that log."""
    directory = str(tmp_path / 'decisions')
    made = cloud([Host('cmp-1')], novasched={'decisions_dir': directory})
    with console.opened(made.conf, sources(made)) as reader:
        yield app.create(reader)


@pytest.fixture
def where(console_pages, tmp_path):
    """The socket of that console."""
    settings = ConsoleSettings(listen=Address(path=str(tmp_path / 'console.sock')))
    security.install(console_pages, settings)
    with web_server.served(console_pages, settings):
        yield settings.listen.path


def without_now(report):
    """A report without the time at which it was made."""
    rest = {'since', 'until', 'tapped_s'}
    return {name: value for name, value in report.items() if name not in rest}


def test_report_says_how_a_shadow_chose_beside_nova(compared, here):
    code, found, _ = here(ReportShadow)
    assert code == 3
    assert (found['requests'], found['servers']) == (35, 36)
    assert [each['name'] for each in found['findings']] == [
        'RAMWeigher',
        'NUMATopologyFilter',
    ]
    assert set(found['verdicts']) == set(Verdict)
    assert set(found['causes']) == set(Cause) - {Cause.CHANCE}
    assert found['refusals'] == {'servers': 1, 'elsewhere': 1, 'hosts': {'cmp-7': 1}}
    assert (found['nova_ms']['number'], found['nova_ms']['p50']) == (1, 310.0)
    assert found['gaps_total'] == 1
    newest = found['differences'][0]
    assert (newest['ours'], newest['nova']) == ('cmp-1', 'cmp-2')
    assert newest['server'] == named_uuid('g1')


def test_each_difference_names_the_commands_that_look_into_it(compared, here):
    _, text, _ = here(ReportShadow, form='text')
    _, found, _ = here(ReportShadow)
    id = found['differences'][0]['id']
    line = f'  novasched explain {id} · novasched shadow replay {id}'
    assert line in text.splitlines()
    code, explained, _ = here(ExplainDecision, id, '--local', form='text')
    assert (code, explained.count('Nova    ')) == (0, 2)


@cases(
    ('since', 'servers', 'code'),
    ('all', '1d', 36, 3),
    ('none', '1m', 0, 3),
)
def test_report_is_of_the_time_that_is_asked_for(compared, here, since, servers, code):
    found_code, found, _ = here(ReportShadow, '--since', since)
    assert (found_code, found['servers']) == (code, servers)


def test_wrong_time_says_which_would_do(compared, here):
    with pytest.raises(errors.OptionError, match=r"'noon' is no time"):
        here(ReportShadow, '--since', 'noon')


def test_report_without_findings_exits_with_0(log, here):
    now_s = int(SYSTEM_CLOCK.time())
    write(log, [compared_record(now_s - 5, comparison(Verdict.EQUAL))])
    code, text, _ = here(ReportShadow, form='text')
    assert (code, 'as nova, or alike 100.0 %' in text) == (0, True)


def test_log_without_comparisons_says_what_a_shadow_needs(log, here):
    code, text, _ = here(ReportShadow, form='text')
    assert code == 3
    assert 'Nothing was compared since' in text
    assert '[novasched] shadow = true' in ' '.join(text.split())


@pytest.mark.parametrize('words', [[], ['--since', '1m']], ids=['all', 'nothing'])
def test_console_reports_as_the_files_do(compared, here, where, words):
    own = here(ReportShadow, *words)
    theirs = run(ReportShadow, *words, '--console', where)
    assert without_now(theirs[1]) == without_now(own[1])
    assert theirs[0] == own[0]


@cases(
    ('kind', 'words'),
    ('list', ListDecisions, []),
    ('count', CountDecisions, ['--by', 'result']),
)
def test_console_finds_the_decisions_that_differ(compared, here, where, kind, words):
    own = here(kind, *words, '--differs', '--local')
    theirs = run(kind, *words, '--differs', '--console', where)
    assert theirs[:2] == own[:2]
    counts = [each.get('count', 1) for each in own[1]]
    assert sum(counts) == DIFFERENT


def test_listed_decisions_have_a_server_for_which_nova_chose_otherwise(compared, here):
    _, listed, _ = here(ListDecisions, '--differs', '--local')
    _, report, _ = here(ReportShadow)
    found = {each['id'] for each in listed}
    assert found == {each['id'] for each in report['differences']}
    assert len(found) == DIFFERENT
    _, large, _ = here(ListDecisions, '--differs', '--flavor', 'm1.large', '--local')
    assert len(large) == DIFFERENT - 1


def test_log_of_a_scheduler_has_no_decision_that_differs(log, here):
    assert here(ListDecisions, '--differs', '--local')[:2] == (0, [])
    assert here(CountDecisions, '--differs', '--local')[:2] == (0, [])


def test_console_explains_the_choice_of_nova_as_the_files_do(compared, here, where):
    _, found, _ = here(ReportShadow)
    for each in found['differences']:
        own = here(ExplainDecision, each['id'], '--local', form='text')
        theirs = run(ExplainDecision, each['id'], '--console', where, form='text')
        assert theirs[:2] == own[:2]


def test_pages_link_to_the_report_where_there_is_one(compared, console_pages):
    pages = console_pages.test_client()
    links = [each['href'] for each, _ in SeenPage(pages.get('/').text).all('a')]
    assert '/shadow' in links
    seen = SeenPage(pages.get('/shadow').text)
    assert '36 servers' in seen.text()
    for each, _ in seen.all('a', href=None):
        if each['href'].startswith(('/decisions', '/shadow')):
            assert pages.get(each['href']).status_code == 200, each['href']


def test_pages_of_a_scheduler_do_not_link_to_a_report(log, console_pages):
    pages = console_pages.test_client()
    links = [each['href'] for each, _ in SeenPage(pages.get('/').text).all('a')]
    assert '/shadow' not in links
    assert 'Nothing was compared' in pages.get('/shadow').text

# SPDX-License-Identifier: Apache-2.0
"""``novasched explain``: what is asked about, and what is answered."""

import dataclasses
import pathlib
import subprocess
import sys

import pytest
from oslo_config import cfg

from novasched import errors
from novasched.commands import sources
from novasched.commands.base import ANSWER_IS_NO, ANSWERED, IN_PART
from novasched.commands.explain import NEWEST_HERE, ExplainDecision, in_short
from novasched.decisions import files, primitives
from novasched.decisions.reading import DecisionFiles
from novasched.decisions.writing import DecisionWriter
from novasched.inspection.questions.all_decisions import AllDecisions, OwnLog
from novasched.inspection.questions.reports import HostCondition, WhyNotReport
from novasched.inspection.questions.schedulers import OtherSchedulers
from novasched.rpc.inspection_client import InspectionReply
from novasched.runtime.typed_json import to_json
from tests.golden.explain.test_schema import VALIDATOR
from tests.support.records import decision_records as records
from tests.support.records.stored_records import write
from tests.support.tables.cases import cases
from tests.unit.commands.played import App, run

OTHER = '77ad0000-0000-4000-8000-000000000001'
SECOND = '77ad0000-0000-4000-8000-000000000002'
ELSEWHERE = '77ad0000-0000-4000-8000-000000000003'


class Asker:
    """The scheduler of another machine, which has made one more decision; or none."""

    def __init__(self, decision, problem):
        self._decision, self._problem = decision, problem

    def ask(self, hosts, method, **arguments):
        for host in hosts:
            answer = getattr(self, method)(**arguments) if not self._problem else None
            yield InspectionReply(host, answer, 'elsewhere', self._problem)

    def find(self, criteria, **more):
        uuids = [server.uuid for server in self._decision.body.servers]
        if criteria.get('server') not in uuids:
            return []
        return [[dataclasses.asdict(self._decision.head), []]]

    def read(self, id):
        if not self._decision.head.id.startswith(id):
            return {'ids': [], 'record': None}
        return {
            'ids': [self._decision.head.id],
            'record': primitives.packed(self._decision),
        }

    def oldest_at(self):
        return records.AT

    def close(self): ...


class Explain(ExplainDecision):
    """The command, with the names of servers and no database."""

    names = {
        'web-7': [records.SERVER],
        'web': [OTHER, records.SERVER],
        'd-prod1': [records.SERVER],
        'deadbeef': [records.SERVER],
    }
    unavailable = []
    decision = records.changed(
        records.scheduled(servers=[records.server(ELSEWHERE, 'cmp-044')]),
        id='d-0711111111111',
        worker='controller-2:1',
    )
    problem = ''

    def servers_called(self, name):
        return self.names.get(name, []), self.unavailable

    def sources(self, local_only):
        if local_only:
            return super().sources(local_only)
        directory = files.existing(self.configuration(sources.OPTIONS))
        own = OwnLog(lambda: 'controller-1', DecisionFiles(directory), 'here')
        asker = Asker(self.decision, self.problem)
        others = OtherSchedulers(lambda: ['controller-2'], lambda: asker)
        return AllDecisions(own, others)


class InPart(Explain):
    """The other scheduler does not answer, nor does one cell."""

    problem = 'did not answer within 2 s'
    unavailable = ['cell3']


@pytest.fixture
def directory(tmp_path):
    made = tmp_path / 'decisions'
    made.mkdir()
    return made


@pytest.fixture
def conf(tmp_path, directory):
    path = tmp_path / 'nova.conf'
    path.write_text(f'[novasched]\ndecisions_dir = {directory}\n')
    return str(path)


@pytest.fixture
def explain(conf):
    """Run the command; return its exit code, its output, and what it said beside."""

    def run_it(*words, kind=Explain, form='json'):
        return run(kind, *words, form=form, app=App([conf]))

    return run_it


@pytest.fixture
def kept(directory):
    """Three decisions on one server, the last one scheduled; a request for two."""
    writer = DecisionWriter(directory)
    unschedulable = records.unschedulable()
    several = records.scheduled(
        servers=[records.server(OTHER, 'cmp-044'), records.server(SECOND, 'cmp-051')],
        decisions=[
            to_json(records.scheduled().body.decisions[0]),
            {'index': 1, 'attempt': 1, 'host': 'cmp-051'},
        ],
    )
    write(
        writer,
        [
            records.changed(unschedulable, id='d-06aaaaaaaaaaa', request_id='req-1'),
            unschedulable,
            records.scheduled(),
            records.changed(
                several, id='d-0700000000000', request_id='req-2', servers=2
            ),
        ],
    )
    writer.close()


pytestmark = pytest.mark.usefixtures('kept')


HERE = f'{NEWEST_HERE}\n'


@cases(
    ('what', 'id_', 'note'),
    ('a server', records.SERVER, 'd-06f3k9w2qz8tm', HERE),
    ('its uuid in capitals', records.SERVER.upper(), 'd-06f3k9w2qz8tm', HERE),
    ('its name', 'web-7', 'd-06f3k9w2qz8tm', ''),
    ('its name, like the id of a decision', 'd-prod1', 'd-06f3k9w2qz8tm', ''),
    ('a request', 'req-1', 'd-06aaaaaaaaaaa', HERE),
    ('a decision', 'd-06f3kd1r0vb4n', 'd-06f3kd1r0vb4n', ''),
    ('the beginning of its id', 'd-06f3kd', 'd-06f3kd1r0vb4n', ''),
    ('a server of elsewhere', ELSEWHERE, 'd-0711111111111', ''),
    ('a decision of elsewhere', 'd-071111', 'd-0711111111111', ''),
)
def test_the_newest_decision_is_explained(explain, what, id_, note):
    code, answer, said = explain(what)
    assert (code, answer['id']) == (ANSWERED, id_)
    assert said == note
    VALIDATOR.validate(answer)


def test_on_this_machine_only(explain):
    code, answer, said = explain(ELSEWHERE, '--local')
    assert (code, answer['id']) == (ANSWER_IS_NO, None)
    code, answer, said = explain(records.SERVER, '--local')
    assert (code, answer['id'], said) == (ANSWERED, 'd-06f3k9w2qz8tm', '')


def test_the_text_names_the_server(explain):
    code, text, _ = explain('web-7', form='text')
    assert code == ANSWERED
    assert 'SCHEDULED on cmp-044' in text
    assert 'server  web-7 5b1c8e42…' in text


def test_all_decisions_the_newest_first(explain):
    _, answer, said = explain(records.SERVER, '--all')
    VALIDATOR.validate(answer)
    ids = [each['id'] for each in answer['explanations']]
    assert ids == ['d-06f3k9w2qz8tm', 'd-06f3kd1r0vb4n', 'd-06aaaaaaaaaaa']
    assert said == ''
    _, text, _ = explain(records.SERVER, '--all', form='text')
    assert text.count('NO VALID HOST') == 2


@cases(
    'words, index, picked',
    ('of a server, its own', [SECOND], 1, 'cmp-051'),
    ('as asked for', [SECOND, '--index', '0'], 0, 'cmp-044'),
    ('of a request, the first', ['req-2'], 0, 'cmp-044'),
)
def test_the_server_of_a_request_for_several(explain, words, index, picked):
    _, answer, _ = explain(*words)
    assert (answer['index'], answer['picked']) == (index, picked)


def test_every_host_with_long(explain):
    _, answer, _ = explain('d-06f3kd', '--long')
    VALIDATOR.validate(answer)
    assert len(answer['hosts']) == 312
    _, text, _ = explain('d-06f3kd', '--long', form='text')
    assert records.SERVER in text


def test_outcome_of_one_host_is_explained(explain):
    words = ('d-06f3kd', '--host', 'cmp-010', '--then-only')
    _, answer, _ = explain(*words)
    VALIDATOR.validate(answer)
    assert answer['of_host']['outcome'] == 'NUMATopologyFilter'
    _, text, _ = explain(*words, form='text')
    assert 'Then    NUMATopologyFilter: not-enough-dedicated-cpus' in text


def test_then_and_now(explain):
    class WithNow(Explain):
        def now(self, host, record):
            return {'text': f'{host} takes {record.head.id}'}

    words = ('d-06f3kd', '--host', 'cmp-010')
    _, answer, _ = explain(*words, kind=WithNow)
    assert answer['now'] == {'text': 'cmp-010 takes d-06f3kd1r0vb4n'}
    _, answer, _ = explain(*words, '--then-only', kind=WithNow)
    assert answer['now'] is None


def test_a_cloud_that_cannot_be_read_leaves_what_was_then(explain):
    code, answer, said = explain('d-06f3kd', '--host', 'cmp-010')
    assert (code, answer['now']) == (ANSWERED, None)
    assert 'cmp-010 cannot be asked what it says now: [api_database]' in said


def test_an_option_that_is_no_such_leaves_what_was_then(explain):
    class Misconfigured(Explain):
        def inspection(self):
            raise cfg.ConfigFileValueError('max_attempts is no number')

    code, answer, said = explain('d-06f3kd', '--host', 'cmp-010', kind=Misconfigured)
    assert (code, answer['now']) == (ANSWERED, None)
    assert 'says now: max_attempts is no number' in said


def why_not_report(**fields):
    known = dict.fromkeys(each.name for each in dataclasses.fields(WhyNotReport))
    return WhyNotReport(**known | {'conditions': []} | fields)


def test_current_verdict_of_a_host_is_one_sentence():
    fits = why_not_report(fits=True, rank=2, of=5)
    assert in_short(fits) == 'it would be taken, rank 2 of 5.'
    conditions = [
        HostCondition('placement', True),
        HostCondition('IoOpsFilter', False, 'x', '8 of 8'),
        HostCondition('MyFilter', False, 'rejected'),
    ]
    assert in_short(why_not_report(fits=False, conditions=conditions)) == (
        'it fails 2 of 3: IoOpsFilter: x: 8 of 8; MyFilter: rejected.'
    )


def test_no_decision_on_a_server(explain):
    unknown = '77ad0000-0000-4000-8000-00000000ffff'
    code, answer, _ = explain(unknown)
    VALIDATOR.validate(answer)
    assert code == ANSWER_IS_NO
    assert answer['text'] == (
        f'No decision on server {unknown} is kept; the oldest is of '
        '2026-11-22T12:00:03Z. What would be decided now: novasched plan move '
        f'{unknown}'
    )


@pytest.mark.parametrize(
    ('what', 'text'),
    [
        ('req-9', 'No decision on request req-9 is kept; the oldest is of '),
        ('d-zzzzzz', 'No decision d-zzzzzz is kept; the oldest is of '),
        ('d-zzzz', 'No decision d-zzzz is kept; the oldest is of '),
    ],
)
def test_no_such_decision(explain, what, text):
    code, said, _ = explain(what, form='text')
    assert code == ANSWER_IS_NO
    assert said.startswith(text)


def test_silent_schedulers_and_cells_are_named(explain):
    code, answer, said = explain('web-7', kind=InPart)
    assert code == ANSWERED
    assert answer['unanswered'] == ['controller-2']
    assert 'warning: controller-2 did not answer within 2 s; decisions' in said
    assert 'warning: cell3 does not answer' in said


def test_nothing_found_where_not_all_answered(explain):
    code, _, _ = explain('req-9', kind=InPart)
    assert code == IN_PART


def test_the_beginning_of_a_uuid_is_enough(explain):
    for what in (records.SERVER[:8], records.SERVER[:20]):
        code, answer, _ = explain(what)
        assert (code, answer['servers'][0]['uuid']) == (ANSWERED, records.SERVER)


def test_a_server_may_be_called_as_a_uuid_begins(explain):
    code, answer, _ = explain('deadbeef')
    assert (code, answer['server_name']) == (ANSWERED, 'deadbeef')


def test_a_name_that_a_cell_which_is_away_may_have(explain):
    code, answer, said = explain('db', kind=InPart)
    VALIDATOR.validate(answer)
    assert (code, answer['id']) == (IN_PART, None)
    assert answer['text'] == 'There is no server called db in the cells that answer.'
    assert 'warning: cell3 does not answer' in said


def test_unreadable_databases_make_an_id_a_decision(explain):
    class NoDatabases(Explain):
        servers_called = ExplainDecision.servers_called

    code, answer, said = explain('d-zzzzzz', kind=NoDatabases)
    assert (code, answer['id']) == (ANSWER_IS_NO, None)
    assert said.startswith('warning: whether a server is called d-zzzzzz is not known')


@cases(
    'what, problem',
    ('several', 'web', '2 servers are called web: 77ad'),
    ('none', 'db', 'no server called db'),
    ('a name like an id', 'd-typo?', 'no server called d-typo'),
)
def test_name_must_belong_to_one_server(explain, what, problem):
    with pytest.raises(errors.OptionError, match=problem):
        explain(what)


def test_a_directory_without_records_is_an_error(tmp_path):
    path = tmp_path / 'empty.conf'
    path.write_text(f'[novasched]\ndecisions_dir = {tmp_path}\n')
    with pytest.raises(errors.OptionError, match='no records of decisions'):
        run(Explain, records.SERVER, '--local', app=App([str(path)]))


def test_a_local_record_costs_no_heavy_import(conf):
    script = (
        'import sys; from novasched.cmd.main import main; '
        f'code = main(["explain", "{records.SERVER}", '
        f'"--config-file", "{conf}"]); '
        'heavy = {"sqlalchemy", "oslo_messaging", "numpy"} & set(sys.modules); '
        'sys.exit(str(heavy) if heavy else code)'
    )
    root = pathlib.Path(__file__).parents[3]
    run = subprocess.run(
        [sys.executable, '-c', script],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert 'SCHEDULED on cmp-044' in run.stdout

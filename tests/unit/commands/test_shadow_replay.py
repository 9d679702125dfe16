# SPDX-License-Identifier: Apache-2.0
"""novasched shadow replay: a kept request, from the log or a file, decided again."""

import json
import sys
from dataclasses import replace

import pytest

from novasched import errors
from novasched.commands.base import ANSWER_IS_NO, ANSWERED
from novasched.commands.shadow_replay import ReplayDecision
from novasched.decisions import history
from novasched.decisions.anonymous import anonymous
from novasched.decisions.comparison import Cause, NovaChoice, ServerComparison, Verdict
from novasched.decisions.reading import Criteria, DecisionFiles
from novasched.decisions.writing import DecisionWriter
from novasched.objects.request_spec import (
    CellMapping,
    Destination,
    SecurityGroup,
    SecurityGroupList,
)
from novasched.plugins import profile_from_conf
from novasched.releases import NEWEST
from novasched.runtime.typed_json import of_json
from novasched.scheduler.flavor_sizes import FlavorSize
from novasched.scheduler.weighers.keep_room import KeepRoomWeigher
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.clouds.factories import INSTANCE
from tests.support.records.recordings import Recorded
from tests.support.records.stored_records import make_record, write
from tests.support.tables.cases import cases
from tests.unit.commands.played import App, run

URL = 'mysql+pymysql://nova:s3cret@db/nova_cell1'
NOVAS = 'nova.scheduler.filters.all_filters'
NEIGHBOURS = 'tests.plugins.neighbours.NeighboursFilter'
FAULT = "Lost connection to MySQL server at 'db.acme.example'"
UUID = 'ce110000-0000-4000-8000-000000000001'


@pytest.fixture(scope='module')
def recorded():
    """A request for one of four hosts, of which the third is disabled."""
    profile = profile_from_conf(make_conf())
    made = Recorded(
        factories.hosts(
            host=[f'compute-{n}' for n in range(1, 5)],
            uuid=[f'c0ffee00-0000-4000-8000-00000000000{n}' for n in range(1, 5)],
            free_ram_mb=[1024, 4096, 8192, 2048],
            service_disabled=[False, False, True, False],
        ),
        filters=profile.filters,
        weighers=profile.weighers,
    )
    cell = CellMapping(uuid=UUID, name='cell1', database_connection=URL)
    cell.transport_url = URL
    request = factories.request(
        project_id='acme',
        user_id='wile',
        requested_destination=Destination(cell=cell),
        security_groups=SecurityGroupList(objects=[SecurityGroup(name='of wile')]),
    )
    made.ask(request=request)
    (recorder,) = made.log.requests
    chosen = NovaChoice('compute-3', 'allocation', 1.0)
    recorder.compared = [
        ServerComparison(INSTANCE, 'compute-2', chosen, Verdict.REJECTED, Cause.FILTER)
    ]
    whole = history.encoded(recorder, history.decisive_options(make_conf()), NEWEST)
    return replace(made.record, whole=whole)


@pytest.fixture
def nova_conf(tmp_path, recorded):
    path, directory = tmp_path / 'nova.conf', tmp_path / 'decisions'
    path.write_text(f'[novasched]\ndecisions_dir = {directory}\n')
    writer = DecisionWriter(directory)
    write(writer, [recorded, make_record(request_id='of no shadow')])
    writer.close()
    return path


@pytest.fixture
def ask(nova_conf):
    """Run the command on the log of this machine."""

    def replayed(*words, form='json'):
        return run(ReplayDecision, *words, form=form, app=App([nova_conf]))

    return replayed


@pytest.fixture
def document(recorded):
    return history.decoded(recorded.whole)


@pytest.fixture
def file(tmp_path):
    """Write a document, and return the arguments that read it."""

    def written(document):
        path = tmp_path / 'document.json'
        path.write_text(json.dumps(document))
        return '--from', str(path)

    return written


def test_decision_of_the_log_is_made_again_beside_novas_choice(ask, recorded):
    code, found, said = ask(recorded.head.id[:9])
    assert (code, said) == (ANSWERED, '')
    assert (found['is_equal'], found['hosts'], found['difference']) == (True, 4, None)
    (server,) = found['servers']
    assert (server['recorded'], server['again']) == ('compute-2', 'compute-2')
    assert server['again_outcome'].startswith('rank 1, weight ')
    assert server['compared']['nova']['host'] == 'compute-3'
    assert server['nova_outcome'] == 'rejected by ComputeFilter'


def test_text_names_both_choices(ask, recorded):
    code, text, _ = ask(recorded.head.id, form='text')
    assert code == ANSWERED
    assert '1 server from 4 hosts: the same, host by host\n' in text
    assert 'ours      compute-2\n          rank 1, weight ' in text
    assert 'nova      compute-3, by its allocation, seen after 1.0 s\n' in text
    assert '\n          rejected by ComputeFilter\n' in text
    assert "compared  nova's host is not among our survivors" in text


def test_document_is_decided_again_without_the_log(ask, recorded, tmp_path):
    path = tmp_path / 'bug.json'
    first = ask(recorded.head.id, '--to', str(path))
    assert first[2] == f'The document is in {path}\n'
    assert run(ReplayDecision, '--from', str(path))[:2] == first[:2]


def test_document_has_neither_passwords_nor_security_groups(document):
    assert 's3cret' not in json.dumps(document)
    assert 'of wile' not in json.dumps(document)
    spec = document['requests'][0]['spec']['nova_object.data']
    cell = spec['requested_destination']['nova_object.data']['cell']
    assert cell['nova_object.data']['uuid'] == UUID


def test_altered_row_is_named_with_both_outcomes(document, file):
    document['state']['hosts'][1]['service_disabled'] = True
    code, found, _ = run(ReplayDecision, *file(document))
    difference = found['difference']
    assert (code, found['is_equal']) == (ANSWER_IS_NO, False)
    assert found['servers'][0]['again'] == 'compute-4'
    assert (difference['host'], difference['again']) == (
        'compute-2',
        'rejected by ComputeFilter',
    )
    assert difference['recorded'].startswith('rank 1, weight ')
    assert difference['recorded_steps'][0] == 'ComputeFilter rejected 1'
    assert difference['again_steps'][0] == 'ComputeFilter rejected 2'
    _, text, _ = run(ReplayDecision, *file(document), form='text')
    assert 'from 4 hosts: another one\n' in text
    assert '3 hosts have another outcome. The first is compute-2, for server 0' in text


def test_document_of_a_later_form_is_refused(document, file):
    document |= {'history': history.FORM + 1, 'novasched': '99.0'}
    with pytest.raises(errors.OptionError, match=r'later release, novasched 99\.0'):
        run(ReplayDecision, *file(document))


@pytest.mark.parametrize(
    'broken',
    [[], {}, {'history': 1}, {'history': 1, 'requests': [], 'state': {}}],
)
def test_broken_document_is_refused(file, broken):
    with pytest.raises(errors.OptionError, match=r'document\.json'):
        run(ReplayDecision, *file(broken))


def test_missing_file_is_named(tmp_path):
    with pytest.raises(errors.OptionError, match='nowhere'):
        run(ReplayDecision, '--from', str(tmp_path / 'nowhere'))


def test_record_without_its_request_says_which_option_keeps_it(ask, nova_conf):
    (other,) = DecisionFiles(nova_conf.parent / 'decisions').find(
        Criteria(request='of no shadow')
    )
    with pytest.raises(errors.OptionError, match='shadow_keep'):
        ask(other.id)


def test_unknown_decision_is_an_answer_of_no(ask):
    code, text, said = ask('d-0000000', form='text')
    assert (code, text) == (ANSWER_IS_NO, '')
    assert said == 'No record is kept of a decision d-0000000.\n'


def test_anonymous_document_has_no_name_and_is_equal(ask, recorded, tmp_path):
    path = tmp_path / 'anonymous.json'
    code, found, _ = ask(recorded.head.id, '--anonymous', '--to', str(path))
    assert (code, found['is_equal']) == (ANSWERED, True)
    text = path.read_text() + json.dumps(found)
    names = [UUID, INSTANCE, recorded.head.id, 'acme', 'wile', 'cell1', 'compute-']
    assert [name for name in names if name in text] == []


@cases(
    ('cause', 'detail', 'is_kept'),
    ('fault', Cause.NOVA_ERROR, FAULT, False),
    ('filter', Cause.FILTER, 'ComputeFilter', True),
)
def test_anonymous_document_has_no_text_of_faults(document, cause, detail, is_kept):
    (compared,) = document['requests'][0]['nova']
    compared |= {'cause': cause, 'detail': detail}
    compared['nova']['fault'] = FAULT
    made = anonymous(document)
    assert 'acme.example' not in json.dumps(made)
    (again,) = made['requests'][0]['nova']
    assert again.get('detail') == (detail if is_kept else None)
    assert of_json(ServerComparison, again).nova.fault == ''


@cases(
    ('group', 'option', 'value'),
    ('filter', 'filter_scheduler', 'available_filters', [NOVAS, 'this.Filter']),
    ('weigher', 'filter_scheduler', 'weight_classes', ['this.Filter']),
    ('driver', 'scheduler', 'driver', 'this.Filter'),
)
def test_document_loads_no_class_of_others(document, file, group, option, value):
    document['profile']['options'][group][option] = value
    with pytest.raises(errors.OptionError, match=r'it would load this\.Filter, '):
        run(ReplayDecision, *file(document))
    assert 'this' not in sys.modules


def test_document_loads_classes_that_the_configuration_names(document, file, nova_conf):
    document['profile']['options']['filter_scheduler']['available_filters'] = [
        NOVAS,
        NEIGHBOURS,
    ]
    with nova_conf.open('a') as conf:
        conf.write(f'[filter_scheduler]\navailable_filters = {NEIGHBOURS}\n')
    code, found, _ = run(ReplayDecision, *file(document), app=App([nova_conf]))
    assert (code, found['is_equal']) == (ANSWERED, True)


def test_columns_of_weighers_of_ours_are_kept():
    sizes = (FlavorSize(4, 8192, 2), FlavorSize(1, 512, 0.5))
    columns = {
        'failed_builds': [3, 1],
        'recent_failed_builds': [0, 1],
        'is_source': [False, True],
        'public_flavors': [sizes, sizes],
    }
    flavors = KeepRoomWeigher(1.0)
    made = Recorded(factories.hosts(**columns), filters=[], weighers=[flavors])
    made.ask(request=factories.request())
    (recorder,) = made.log.requests
    whole = history.encoded(recorder, history.decisive_options(make_conf()), NEWEST)
    hosts = history.hosts_of(history.decoded(whole))
    assert {name: getattr(hosts, name).tolist() for name in columns} == columns

# SPDX-License-Identifier: Apache-2.0
"""novasched lab check and novasched lab export: a history decided again, or a part."""

import json
import zlib
from uuid import UUID

import pytest

from novasched import errors
from novasched.commands.base import ANSWER_IS_NO, ANSWERED
from novasched.commands.lab import CheckHistory, ExportHistory
from novasched.history import files, reading
from novasched.history.encoding import FORM
from tests.support.records.histories import RecordedHistory
from tests.unit.commands.played import run

REQUESTS = 7


@pytest.fixture
def directory(tmp_path):
    """A history of seven requests in two files of one worker, and one of another."""
    found = tmp_path / 'history'
    for worker, requests in (('rack1', 3), ('rack2', 4)):
        recorded = RecordedHistory(found, worker)
        for number in range(requests):
            uuid = str(UUID(int=requests * 10 + number))
            recorded.record(uuid=uuid, project_id='acme')
        recorded.recorder.close()
    return found


def rewritten(file, change):
    """Change each line of a file."""
    lines = [json.loads(line) for line in reading.Lines(file)]
    for line in lines:
        change(line)
    text = ''.join(json.dumps(line) + '\n' for line in lines).encode()
    compressor = zlib.compressobj(wbits=files.GZIP)
    file.write_bytes(compressor.compress(text) + compressor.flush())


def disable_all_but(row):
    def change(line):
        for place, _ in enumerate(line.get('columns', {}).get('host', ())):
            line['columns']['service_disabled'][place] = place != row

    return change


def test_whole_history_is_equal(directory):
    code, text, said = run(CheckHistory, str(directory), form='text')
    assert (code, said) == (ANSWERED, '')
    assert text == '7 requests, 7 decisions: all equal\n'


@pytest.mark.parametrize('jobs', ['1', '2'])
def test_gaps_and_first_difference_are_shown_with_both_traces(directory, jobs):
    broken, file = reading.files_of(directory)
    rewritten(broken, lambda line: line.get('request') == 2 and line.update(view=9))
    rewritten(file, disable_all_but(3))
    code, found, _ = run(CheckHistory, str(directory), '--jobs', jobs)
    assert (code, found['file']) == (ANSWER_IS_NO, str(file))
    (gap,) = found['gaps']
    assert gap.endswith('it cannot be read further: ValueError: state 9 is missing')
    difference = found['difference']['difference']
    assert (difference['host'], difference['again']) == (
        'compute-0',
        'rejected by ComputeFilter',
    )
    assert found['difference']['servers'][0]['server'] == str(UUID(int=40))
    code, text, _ = run(CheckHistory, str(directory), form='text')
    assert code == ANSWER_IS_NO
    assert ' one is different\n' in text
    assert '3 hosts have another outcome. The first is compute-0, for server 0' in text


def test_killed_worker_costs_what_it_had_not_written(directory):
    file, _ = reading.files_of(directory)
    file.write_bytes(file.read_bytes()[:-40])
    code, text, _ = run(CheckHistory, str(directory), form='text')
    assert code == ANSWERED
    assert text.startswith('6 requests, 6 decisions: all equal\n')
    assert file.name in text.replace('\n', '')
    assert 'the last requests may be missing' in text.replace('\n', ' ')


@pytest.mark.parametrize('content', [None, b'', b'nonsense', b'{"history": 1}'])
def test_file_that_is_no_history_is_named(tmp_path, content):
    path = tmp_path / 'other.jsonl.gz'
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(errors.OptionError, match=r'other\.jsonl\.gz'):
        run(CheckHistory, str(path))


def test_later_form_is_refused(directory):
    file, _ = reading.files_of(directory)
    rewritten(
        file,
        lambda line: line.update({'history': FORM + 1}) if 'history' in line else 0,
    )
    with pytest.raises(errors.OptionError, match='later form'):
        run(CheckHistory, str(file))


def test_classes_of_others_are_not_loaded(directory):
    file, _ = reading.files_of(directory)

    def change(line):
        if 'options' in line:
            line['options']['filter_scheduler']['available_filters'] = ['this.Filter']

    rewritten(file, change)
    with pytest.raises(errors.OptionError, match=r'it would load this\.Filter, '):
        run(CheckHistory, str(directory))


@pytest.mark.parametrize('words', [(), ('--anonymous',)])
def test_exported_history_is_one_file_that_checks_equal(directory, tmp_path, words):
    path = tmp_path / 'one.jsonl.gz'
    code, found, _ = run(ExportHistory, str(directory), '--to', str(path), *words)
    assert (code, found['requests']) == (ANSWERED, REQUESTS)
    _, text, _ = run(CheckHistory, str(path), form='text')
    assert text == '7 requests, 7 decisions: all equal\n'
    lines = b'\n'.join(reading.Lines(path)).decode()
    names = ['acme', 'compute-1', 'rack1', str(UUID(int=30)), 'c0ffee00-0000-4000']
    assert [name in lines for name in names] == [not words] * len(names)


@pytest.mark.parametrize('words', [(), ('--anonymous',)])
def test_request_is_exported_as_a_document(directory, tmp_path, words):
    path = tmp_path / 'bug.json'
    server = str(UUID(int=42))
    arguments = str(directory), '--to', str(path), '--request', server, *words
    code, found, _ = run(ExportHistory, *arguments)
    assert (code, found['requests']) == (ANSWERED, 1)
    document = json.loads(path.read_text())
    assert len(document['state']['hosts']) == 4
    assert (server in path.read_text()) == (not words)
    code, text, _ = run(CheckHistory, str(path), form='text')
    assert (code, text) == (ANSWERED, '1 request, 1 decision: all equal\n')


def test_request_that_is_not_there_is_an_answer_of_no(directory, tmp_path):
    path = tmp_path / 'bug.json'
    arguments = str(directory), '--to', str(path), '--request', 'req-other'
    code, text, said = run(ExportHistory, *arguments, form='text')
    assert (code, text) == (ANSWER_IS_NO, '')
    assert 'req-other' in said
    assert not path.exists()


@pytest.mark.parametrize('words', [(), ('--request', str(UUID(int=30)))])
def test_export_into_the_history_itself_is_refused(directory, words):
    file, _ = reading.files_of(directory)
    before = file.read_bytes()
    for path, to in ((directory, directory / 'mine.jsonl.gz'), (file, file)):
        with pytest.raises(errors.OptionError, match='would become a file'):
            run(ExportHistory, str(path), '--to', str(to), *words)
    assert len(reading.files_of(directory)) == 2
    assert file.read_bytes() == before


def test_failed_export_leaves_no_file(directory, tmp_path):
    file, _ = reading.files_of(directory)
    file.write_bytes(zlib.compress(b'no line of a history\n', wbits=files.GZIP))
    to = tmp_path / 'to'
    to.mkdir()
    for path, words in ((directory, ['--anonymous']), (tmp_path / 'none', [])):
        with pytest.raises(errors.OptionError):
            run(ExportHistory, str(path), '--to', str(to / 'one.jsonl.gz'), *words)
    assert [*to.iterdir()] == []

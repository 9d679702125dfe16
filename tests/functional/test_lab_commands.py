# SPDX-License-Identifier: Apache-2.0
"""Commands over a small history: ``lab run``, ``lab need``, ``lab show``,
``lab flavors``, ``lab import``, ``lab advise``."""

import gzip
import json

import numpy as np
import pytest

from novasched import errors
from novasched.commands import policy_lab
from novasched.decisions.history import decisive_options
from novasched.policy_lab import runs
from novasched.scheduler.weighers import Weigher
from tests.support.clouds.configuration import make_conf
from tests.support.clouds.traces import written
from tests.support.records.histories import RecordedHistory
from tests.unit.commands.played import App, run

POLICIES = ('--policy', 'now=default', '--policy', 'pack=cpu:-1,ram:-1')
QUICK = ('--jobs', '1', '--fill', '12h', '--hosts', '3x8:32')


@pytest.fixture(scope='module')
def history(tmp_path_factory):
    return str(written(tmp_path_factory.mktemp('history')))


@pytest.fixture(scope='module')
def done(history, tmp_path_factory):
    """The directory of a run, its exit code and what it printed."""
    to = tmp_path_factory.mktemp('run')
    words = (history, *POLICIES, *QUICK, '--to', str(to), '--need')
    return to, *run(policy_lab.RunPolicies, *words, form='text')


def test_run_compares_policies_and_says_how_to_see_more(done):
    to, code, text, _ = done
    assert code == 0
    assert 'pack - now' in text
    assert 'Hosts needed' in text
    assert text.rstrip().endswith(f'More: novasched lab show {to}')


def test_run_is_shown_again(done):
    to, _, text, _ = done
    _, shown, _ = run(policy_lab.ShowRun, str(to), form='text')
    assert text.startswith(shown.rstrip())
    _, answer, _ = run(policy_lab.ShowRun, str(to))
    assert answer['plan']['policies'][1]['name'] == 'pack'
    assert len(answer['parts']) == 4
    flavor = answer['parts'][0]['flavors'][0]['flavor']
    words = (str(to), '--over', 'time', '--room', flavor)
    _, bars, _ = run(policy_lab.ShowRun, *words, form='text')
    assert bars.startswith(f'room for {flavor}, VMs')
    _, refused, _ = run(policy_lab.ShowRun, str(to), '--refused', form='text')
    assert refused.startswith('Policy')


def test_series_is_written_as_csv_and_svg(done, tmp_path):
    to, *_ = done
    files = '--csv', str(tmp_path / 'x.csv'), '--svg', str(tmp_path / 'x.svg')
    words = (str(to), '--figure', 'empty_percent', *files)
    code, _, said = run(policy_lab.ShowRun, *words, form='text')
    assert (code, said.count('empty hosts, %')) == (0, 2)
    assert (tmp_path / 'x.csv').read_text().startswith('at_s,now,pack\n')
    assert (tmp_path / 'x.svg').read_text().startswith('<svg')


@pytest.mark.parametrize(
    'words', [('--csv', 'x'), ('--room', 'xl'), ('--figure', 'happiness')]
)
def test_series_that_is_none_is_refused(done, words):
    with pytest.raises(errors.OptionError):
        run(policy_lab.ShowRun, str(done[0]), *words)


def test_hosts_that_are_needed_are_counted(done, history):
    words = (history, *POLICIES, *QUICK[:2], '--hosts', '3x8:32', '--to', str(done[0]))
    _, text, _ = run(policy_lab.FindNeededHosts, *words, form='text')
    assert text.splitlines()[-2].startswith('now: ')
    assert runs.read(done[0]).needed


def test_flavors_are_a_line_for_the_configuration(history):
    code, text, _ = run(policy_lab.ListFlavors, history, form='text')
    assert code == 0
    assert text.startswith('[filter_scheduler]\nkeep_room_flavors = ')


def test_advice_is_lines_to_paste(history, tmp_path):
    words = (history, *QUICK, '--parts', '1', '--to', str(tmp_path / 'run'))
    code, text, _ = run(policy_lab.AdvisePolicies, *words, form='text')
    assert code == 0
    pasted = text[text.index('keep-room:') :]
    assert '    keep_room_weight_multiplier = 10.0\n    keep_room_flavors = ' in pasted
    assert '    cpu_share_weight_multiplier = 1.0' in pasted
    assert 'refused ' in pasted


def test_trace_is_imported_and_run(tmp_path):
    rows = ['t,event,vm,batch,flavor,vcpus,ram_mb,lifetime_s,censored']
    for number in range(40):
        at = 1_800_000 + 900 * number
        rows.append(f'{at},create,{number},{number // 2},a,2,4096,{3600 + at % 7},0')
    file = tmp_path / 'trace.csv.gz'
    file.write_bytes(gzip.compress('\n'.join(rows).encode()))
    words = ('azure2017', str(file), '--to', str(tmp_path / 'made'), '--part', '1-2/2')
    more = ('--hosts', '4x8:32', '--warm-up', '6h')
    code, text, _ = run(policy_lab.ImportTrace, *words, *more, form='text')
    assert code == 0
    assert '2 parts, hosts 4 x 8 vCPU 32 GB' in text
    words = (str(tmp_path / 'made'), '--policy', 'now=', *QUICK[:4])
    _, answer, _ = run(policy_lab.RunPolicies, *words)
    assert json.dumps(answer).count('"policy": "now"') == 2


def test_hosts_may_be_of_a_trace_without_part_1(tmp_path):
    history = str(written(tmp_path / 'history', parts=(3,), count=10))
    words = (history, *POLICIES, '--jobs', '1', '--fill', '12h', '--hosts', '8:32@50%')
    code, answer, _ = run(policy_lab.RunPolicies, *words)
    assert (code, answer['plan']['parts']) == (0, [3])


class Indifferent(Weigher):
    """A weigher of a cloud's own."""

    def weigh(self, hosts, request):
        return np.zeros(len(hosts))


@pytest.mark.parametrize(
    ('command', 'words'),
    [
        (policy_lab.RunPolicies, ['--policy', 'now=']),
        (policy_lab.AdvisePolicies, []),
    ],
)
def test_weigher_of_the_cloud_is_loaded_if_the_configuration_names_it(
    tmp_path, command, words
):
    conf = make_conf()
    weighers = [f'{__name__}.Indifferent']
    conf.set_override('weight_classes', weighers, 'filter_scheduler')
    profile = {'nova_release': 34, 'options': decisive_options(conf)}
    made = RecordedHistory(tmp_path / 'history', profile=profile)
    made.record(3)
    made.recorder.close()
    words = (str(tmp_path / 'history'), *words, '--jobs', '1', '--fill', '12h')
    with pytest.raises(errors.OptionError, match='Indifferent, which the config'):
        run(command, *words, app=App())
    file = tmp_path / 'nova.conf'
    file.write_text(f'[filter_scheduler]\nweight_classes = {weighers[0]}\n')
    assert run(command, *words, app=App(config_file=[str(file)]))[0] == 0


@pytest.mark.parametrize('text', ['6', 'h', '-1h', '1w'])
def test_times_are_numbers_with_a_unit(text, capsys, history):
    with pytest.raises(SystemExit):
        run(policy_lab.RunPolicies, history, *POLICIES, f'--fill={text}')
    assert 'is no time such as 30m, 6h or 2d' in capsys.readouterr().err


def test_directory_that_is_no_history_is_refused(tmp_path):
    with pytest.raises(errors.OptionError):
        run(policy_lab.RunPolicies, str(tmp_path), *POLICIES)

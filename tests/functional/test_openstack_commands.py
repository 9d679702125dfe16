# SPDX-License-Identifier: Apache-2.0
"""Commands of openstack print what those of novasched print, by keystone alone."""

import json
import os
import subprocess
import sys

import pytest

from novasched.commands.capacity import CountCapacity
from novasched.commands.decisions import CountDecisions, ListDecisions
from novasched.commands.explain import ExplainDecision
from novasched.commands.host import ShowHost
from novasched.commands.plan import PlanBoot, PlanDrain
from novasched.commands.why_not import WhyNot
from novasched.decisions.writing import DecisionWriter
from novasched.observability.settings import Address
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.browser import keystone
from tests.functional.conftest import Host
from tests.functional.endpoints import HERE
from tests.functional.test_console_client import served
from tests.functional.test_console_login import conf_of
from tests.functional.test_console_options import steady
from tests.support.records.stored_records import make_record, write
from tests.unit.commands.played import App, run

FLAVOR = ('--flavor', 'vcpus=1,ram=1024,disk=1')
SEED = ('--seed', '7')
SAME = {
    'capacity': (CountCapacity, FLAVOR),
    'decision count': (CountDecisions, ('--by', 'result')),
    'decision list': (ListDecisions, ('--limit', '2')),
    'decision show': (ExplainDecision, ('DECISION',)),
    'host show': (ShowHost, ('h1',)),
    'plan boot': (PlanBoot, (*FLAVOR, *SEED)),
    'plan drain': (PlanDrain, ('h1', *SEED)),
    'why not': (WhyNot, ('h2', *FLAVOR)),
}
"""Commands of openstack, and those of novasched for the same words."""
BY_PASSWORD = ('--os-auth-url', 'KEYSTONE', '--os-password', keystone.PASSWORD)
BY_PASSWORD += ('--os-user-domain-id', 'default')
READER = (*BY_PASSWORD, '--os-username', 'reader', '--os-system-scope', 'all')
MEMBER = (*BY_PASSWORD, '--os-username', 'member', '--os-project-name', 'p1')
MEMBER += ('--os-project-domain-id', 'default')
WITHOUT_TOKEN = ('--os-auth-type', 'none')
ELSEWHERE = ('--os-region-name', 'elsewhere')
ENDPOINT = '--os-scheduler-endpoint'
LIST = ('decision', 'list')
PROGRAM = """
import contextlib, io, json, multiprocessing, sys
from openstackclient import shell

def run(words):
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as said,
    ):
        try:
            code = shell.main(words)
        except SystemExit as end:
            code = end.code
    return code, out.getvalue(), said.getvalue()

run(['scheduler', 'plan', 'boot', '--help'])  # what all import
with multiprocessing.get_context('fork').Pool(2, maxtasksperchild=1) as pool:
    json.dump(pool.map(run, json.load(sys.stdin), chunksize=1), sys.stdout)
"""
"""Runs commands of openstack, each in a process of its own.

These begin with what a first command has imported, which takes long.
"""


def openstack(made, *commands, **variables):
    """Run commands; return exit code, output and messages of each."""
    names = {
        'CONSOLE': made.identity.console_url,
        'DECISION': made.decision,
        'KEYSTONE': made.identity.url,
    }
    environ = {k: v for k, v in os.environ.items() if not k.startswith('OS_')}
    ended = subprocess.run(
        [sys.executable, '-c', PROGRAM],
        input=json.dumps(
            [[names.get(word, word) for word in each] for each in commands]
        ),
        env=environ | variables,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(ended.stdout)


def scheduler(*words, user=READER):
    """The words of a command on the scheduler."""
    return [*user, 'scheduler', *words]


@pytest.fixture(scope='module')
def made(module_cloud, tmp_path_factory):
    """A cloud whose console is in the catalog of the keystone ``made.identity``."""
    directory = tmp_path_factory.mktemp('openstack')
    decisions = directory / 'decisions'
    hosts = [Host('h1', zone='az1'), Host('h2', zone='az1', disabled=True)]
    made = module_cloud(
        hosts,
        DEFAULT={'service_down_time': 3600},
        novasched={'decisions_dir': str(decisions)},
    )
    now_s = int(SYSTEM_CLOCK.time())
    records = [make_record(now_s - n, 'h1') for n in range(3)]
    writer = DecisionWriter(decisions)
    write(writer, records)
    writer.close()
    made.decision = records[0].head.id
    made.file = directory / 'own' / 'nova.conf'
    made.file.parent.mkdir()
    made.file.write_text(f'[novasched]\ndecisions_dir = {decisions}\n')
    with keystone.Keystone() as identity:
        made.identity = identity
        text = keystone.CONF.format(url=identity.url)
        conf = conf_of(directory / 'console.conf', text)
        with served(made, Address(HERE, 0), conf) as address:
            identity.console_url = f'http://{HERE}:{address.port}'
            yield made


def test_openstack_prints_what_novasched_prints(made, monkeypatch):
    answers = openstack(
        made,
        *(
            scheduler(*name.split(), '-f', 'json', *words)
            for name, (_, words) in SAME.items()
        ),
        scheduler('decision', 'show', 'DECISION'),
    )
    token = next(t for t, name in made.identity.tokens.items() if name == 'reader')
    monkeypatch.setenv('OS_TOKEN', token)
    for (name, (kind, words)), (code, out, said) in zip(
        SAME.items(), answers[:-1], strict=True
    ):
        given = [made.decision if word == 'DECISION' else word for word in words]
        own = run(kind, *given, '--console', made.identity.console_url)
        assert (code, said) == (own[0], own[2]), name
        is_new = name.startswith('plan')
        assert steady(json.loads(out), is_new) == steady(own[1], is_new), name
    local = (made.decision, '--local')
    by_files = [
        run(ExplainDecision, *local, form=form, app=App(config_file=[made.file]))
        for form in ('json', 'text')
    ]
    names = list(SAME)
    assert json.loads(answers[names.index('decision show')][1]) == by_files[0][1]
    assert answers[-1][1] == by_files[1][1]


def test_errors_of_openstack_say_what_to_do(made):
    without_token = (*WITHOUT_TOKEN, ENDPOINT, 'CONSOLE')
    cases = (
        (scheduler(*LIST, user=MEMBER), 1, 'HTTP 403): None of your roles (member, re'),
        (scheduler(*LIST, user=without_token), 1, 'does not accept the token'),
        (scheduler(*LIST, user=(*READER, *ELSEWHERE)), 1, 'Create the endpoint'),
        (scheduler('plan', 'boot', '--flavor', 'nonsense'), 1, 'it answers: '),
        (scheduler('host', 'show', 'h9'), 1, 'the console knows no h9'),
        (scheduler('decision', 'list', '--local'), 2, '--local'),
        (scheduler('decision', 'list', '--before', 'd-0000000000'), 3, 'No record'),
        (scheduler('decision', 'show', 'd-0000000000000'), 3, 'has no decision d-000'),
    )
    answers = openstack(made, *(words for words, _, _ in cases))
    for (words, code, text), (ended, out, said) in zip(cases, answers, strict=True):
        assert (ended, text in out + said) == (code, True), (words, ended, out, said)


def test_option_overrides_variable_and_both_override_the_catalog(made):
    elsewhere = (*READER, *ELSEWHERE)
    by_variable = scheduler(*LIST, user=elsewhere)
    by_option = scheduler(*LIST, '-f', 'value', user=(*elsewhere, ENDPOINT, 'CONSOLE'))
    nothing_there = {'OS_SCHEDULER_ENDPOINT': f'http://{HERE}:1'}
    refused, listed = openstack(made, by_variable, by_option, **nothing_there)
    assert (refused[0], 'connection refused' in refused[2]) == (1, True), refused
    assert (listed[0], made.decision in listed[1]) == (0, True), listed

# SPDX-License-Identifier: Apache-2.0
"""Decisions of a daemon on real servers, explained by the command."""

from __future__ import annotations

import json
import re

import pytest

from tests.golden.explain.test_schema import VALIDATOR
from tests.live.daemon import own_program
from tests.live.peer import PeerError
from tests.live.servers.process import completed

pytestmark = pytest.mark.ours
RUN_S = 60
DIAGNOSED_S = 15


@pytest.fixture(scope='module')
def conf(scratch):
    return scratch / 'explained'


@pytest.fixture(scope='module')
def scheduler(module_daemon, conf):
    return module_daemon(
        DEFAULT={'rpc_response_timeout': 3},
        novasched={'decisions_dir': conf, 'no_valid_host_detail': 'user'},
    )


@pytest.fixture
def explain(scheduler):
    """Run the command; give its exit code, output, and what it said beside."""

    def run(*words):
        done = completed(
            [own_program('novasched'), 'explain', *words, *scheduler.process.argv[-2:]],
            timeout_s=RUN_S,
        )
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def explained(explain, eventually):
    """The JSON of an explanation, once a check of it holds."""

    def ask(*words, check=lambda made: True, within_s=DIAGNOSED_S):
        def look():
            code, out, _ = explain(*words, '-f', 'json')
            made = json.loads(out) if out else {}
            return made if code == 0 and check(made) else None

        made = eventually(look, f'explain {" ".join(words)}', within_s)
        VALIDATOR.validate(made)
        return made

    return ask


def test_a_server_is_explained_by_its_uuid(
    scheduler, explained, explain, new_uuid, claims
):
    uuid = new_uuid()
    reply = scheduler.select(uuids=[uuid])
    claims.expect(uuid)
    (chosen,) = reply.hosts
    made = explained(uuid)
    assert (made['result'], made['picked']) == ('scheduled', chosen)
    code, text, _ = explain(uuid, '--host', 'node-disabled')
    assert code == 0
    assert re.search(r'^Then    ', text, re.MULTILINE)
    assert re.search(r'^Now     it fails', text, re.MULTILINE)


def test_a_fault_leads_to_its_cause(scheduler, explained):
    with pytest.raises(PeerError) as raised:
        scheduler.select(flavor={'vcpus': 41})
    (decision,) = re.findall(r'\((d-[0-9a-z]{13})\)$', raised.value.text)

    def is_diagnosed(made):
        return made['diagnosis'] == 'made'

    made = explained(decision, check=is_diagnosed)
    (stage,) = made['stages']
    assert (stage['name'], stage['out']) == ('placement', 0)
    assert sum(reason['count'] for reason in stage['reasons']) == stage['in'] == 8
    assert 'amount-not-allowed' in {reason['code'] for reason in stage['reasons']}

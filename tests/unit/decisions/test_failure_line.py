# SPDX-License-Identifier: Apache-2.0
"""The line that the log has of each request that found no host."""

import json
import logging

import pytest
from oslo_config import cfg
from oslo_log import log
from oslo_log.formatters import ContextFormatter, JSONFormatter

from novasched.decisions.body import RecordBody, RecordedQuery, RecordedView
from novasched.decisions.fault import log_failure
from novasched.decisions.record import Head
from novasched.objects.context import RequestContext
from tests.support.tables.cases import cases

CONTEXT = RequestContext(
    request_id='req-of-this',
    user_id='u-1',
    project_id='p-1',
    auth_token='a secret token',
    user_name='secret name',
    roles=['secret role'],
    service_catalog=[{'type': 'placement', 'name': 'secret service'}],
    remote_address='secret address',
    overwrite=False,
)
LOGGER = 'novasched.decisions.fault'
HEAD = Head(
    id='d-06f3kd1r0vb4n',
    at=0,
    flavor='m1.pinned.8',
    zone='az1',
    result='unschedulable',
    blocker='filters',
    plugin='NUMATopologyFilter',
    code='not-enough-dedicated-cpus',
    hosts=312,
    candidates=31,
    took_us=19_400,
)


@cases(
    ('head', 'body', 'line'),
    (
        'whole',
        HEAD,
        RecordBody(asked=[RecordedQuery(cut=False)]),
        'decision=d-06f3kd1r0vb4n blocker=filters plugin=NUMATopologyFilter '
        'code=not-enough-dedicated-cpus hosts=312 candidates=31 cut=no left_out=- '
        'servers=1 flavor=m1.pinned.8 zone=az1 took_ms=19',
    ),
    (
        'names with anything in them',
        Head(id='d-1', at=0, flavor='a b=c\nd', candidates=-1),
        RecordBody(
            asked=[RecordedQuery(cut=True)], view=RecordedView(['east', 'we st'])
        ),
        'decision=d-1 blocker=- plugin=- code=- hosts=0 candidates=0 cut=yes '
        'left_out=east,we_st servers=1 flavor=a_b_c_d zone=- took_ms=0',
    ),
    (
        'a head alone',
        Head(id='d-1', at=0),
        RecordBody(),
        'decision=d-1 blocker=- plugin=- code=- hosts=0 candidates=0 cut=no '
        'left_out=- servers=1 flavor=- zone=- took_ms=0',
    ),
)
def test_the_line_has_its_keys_in_order(caplog, head, body, line):
    caplog.set_level(logging.INFO, LOGGER)
    log_failure(head, body, CONTEXT)
    (found,) = caplog.records
    assert found.getMessage() == f'No valid host: {line}'
    for pair in line.split(' '):
        key, _, value = pair.partition('=')
        assert str(getattr(found, key)) == value


@pytest.mark.parametrize('formatter', [ContextFormatter, JSONFormatter])
def test_the_line_has_the_ids_of_the_request_and_no_secret(caplog, formatter):
    caplog.set_level(logging.INFO, LOGGER)
    log_failure(HEAD, RecordBody(), CONTEXT)
    (found,) = caplog.records
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    options = {} if formatter is JSONFormatter else {'config': conf}
    line = formatter(**options).format(found)
    for part in ('req-of-this', 'u-1', 'p-1', 'd-06f3kd1r0vb4n'):
        assert part in line
    everything = f'{line} {vars(found)} {vars(found.context)}'
    assert 'secret' not in everything


def test_programs_read_the_keys_of_the_line(caplog):
    caplog.set_level(logging.INFO, LOGGER)
    log_failure(HEAD, RecordBody(), CONTEXT)
    found = json.loads(JSONFormatter().format(caplog.records[0]))
    assert found['extra']['code'] == 'not-enough-dedicated-cpus'
    assert list(found['extra'])[:3] == ['decision', 'blocker', 'plugin']

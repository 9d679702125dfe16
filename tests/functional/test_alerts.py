# SPDX-License-Identifier: Apache-2.0
"""The alert rules, as promtool reads and runs them."""

import pathlib
import re
import shlex

import pytest
import yaml

from tests.functional.prometheus import promtool, unknown_in
from tests.support.suite.documented import check_command

ROOT = pathlib.Path(__file__).parents[2]
RULES = ROOT / 'etc' / 'novasched' / 'prometheus' / 'novasched.rules.yml'
PAGE = ROOT / 'docs' / 'reference' / 'alerts.md'
FIRES_BY_M = 60
"""After so many minutes every alert that has a cause is firing."""

ATTEMPTS = 'novasched_schedule_attempts_total'
SECONDS = 'novasched_scheduling_attempt_duration_seconds_bucket'
WAITS = 'novasched_queue_wait_seconds_bucket'
CLAIMS = 'novasched_claims_total'
QUERIES = 'novasched_candidate_queries_total'
RECORDS = 'novasched_decision_records_total'
WAITING = 'novasched_outage_waiting_requests'
FALLBACKS = 'novasched_mirror_fallbacks_total'


def took(metric, bound, share, label=''):
    """Of a hundred a minute, so many take less than a bound, all less than twice it."""
    counts = {bound: share, 2 * bound: 100, '+Inf': 100}
    return {f'{metric}{{{label}le="{le}"}}': f'0+{n}x60' for le, n in counts.items()}


SCHEDULED = 'result="scheduled",'
EVEN = {f'{ATTEMPTS}{{result="scheduled"}}': '0+100x60'}
"""A hundred requests a minute that go well."""

CASES = {
    'NovaschedDown': (
        {'up{job="novasched",instance="c1"}': '1x10 0x60'},
        {'up{job="novasched",instance="c1"}': '1x60'},
    ),
    'NovaschedErrors': (
        {**EVEN, f'{ATTEMPTS}{{result="error"}}': '0+3x60'},
        {**EVEN, f'{ATTEMPTS}{{result="error"}}': '0+1x60'},
    ),
    'NovaschedUnschedulable': (
        {**EVEN, f'{ATTEMPTS}{{result="unschedulable"}}': '0+30x60'},
        {**EVEN, f'{ATTEMPTS}{{result="unschedulable"}}': '0+10x60'},
    ),
    'NovaschedSlow': (
        took(SECONDS, 8.192, 90, SCHEDULED),
        took(SECONDS, 8.192, 100, SCHEDULED),
    ),
    'NovaschedQueue': (took(WAITS, 4.096, 80), took(WAITS, 4.096, 100)),
    'NovaschedCellLeftOut': (
        {'novasched_cell_left_out{cell="cell1"}': '1x60'},
        {'novasched_cell_left_out{cell="cell1"}': '0x60'},
    ),
    'NovaschedCellStale': (
        {'novasched_cell_state_age_seconds{cell="cell1"}': '10+60x60'},
        {'novasched_cell_state_age_seconds{cell="cell1"}': '60x60'},
    ),
    'NovaschedOutage': (
        {f'{WAITING}{{service="placement"}}': '1x60'},
        {f'{WAITING}{{service="placement"}}': '0x59 3'},
    ),
    'NovaschedClaimConflicts': (
        {
            f'{CLAIMS}{{result="claimed"}}': '0+100x60',
            f'{CLAIMS}{{result="conflict"}}': '0+40x60',
        },
        {
            f'{CLAIMS}{{result="claimed"}}': '0+100x60',
            f'{CLAIMS}{{result="conflict"}}': '0+10x60',
        },
    ),
    'NovaschedClaimsUnknown': (
        {f'{CLAIMS}{{result="unknown"}}': '0x55 1x5'},
        {f'{CLAIMS}{{result="claimed"}}': '0+5x60'},
    ),
    'NovaschedPlacementFails': (
        {f'{QUERIES}{{result="failed"}}': '0+1x60'},
        {f'{QUERIES}{{result="failed"}}': '0x60'},
    ),
    'NovaschedTruncated': (
        {'novasched_candidates_truncated_total': '0x50 1x10'},
        {'novasched_candidates_truncated_total': '7x60'},
    ),
    'NovaschedRecordsLost': (
        {f'{RECORDS}{{outcome="lost"}}': '0x50 1x10'},
        {f'{RECORDS}{{outcome="written"}}': '0+5x60'},
    ),
    'NovaschedMirrorOld': (
        {'novasched_mirror_age_seconds{instance="c1"}': '10+60x60'},
        {'novasched_mirror_age_seconds{instance="c1"}': '2x60'},
    ),
    'NovaschedMirrorUnusable': (
        {f'{FALLBACKS}{{instance="c1",reason="unusable"}}': '0+1x60'},
        {f'{FALLBACKS}{{instance="c1",reason="query"}}': '0+1x60'},
    ),
    'NovaschedMirrorDiffers': (
        {'novasched_mirror_differences_total{instance="c1"}': '0x50 2x10'},
        {'novasched_mirror_differences_total{instance="c1"}': '2x60'},
    ),
}
"""By alert, series that make it fire and series that do not, each for an hour."""
UP = {'up{job="novasched",instance="up"}': '1x60'}


@pytest.fixture(scope='module')
def rules():
    """Every rule, by its name."""
    groups = yaml.safe_load(RULES.read_text())['groups']
    return {rule['alert']: rule for group in groups for rule in group['rules']}


def hour(name, series, firing):
    """One test of promtool: whether an alert fires at the end of an hour."""
    up = {} if any(each.startswith('up{') for each in series) else UP
    expected = [{'labels': f'{{alertname="{name}"}}', 'value': 1}] if firing else []
    return {
        'name': f'{name} {"fires" if firing else "is silent"}',
        'interval': '1m',
        'input_series': [
            {'series': each, 'values': values}
            for each, values in {**up, **series}.items()
        ],
        'promql_expr_test': [
            {
                'expr': 'group by (alertname) (ALERTS{alertstate="firing"})',
                'eval_time': f'{FIRES_BY_M}m',
                'exp_samples': expected,
            }
        ],
    }


def run(tmp_path, tests):
    path = tmp_path / 'tests.yml'
    content = {'rule_files': [str(RULES)], 'evaluation_interval': '1m', 'tests': tests}
    path.write_text(yaml.safe_dump(content))
    promtool('test', 'rules', path)


def test_the_rules_are_valid():
    promtool('check', 'rules', '--lint=all', '--lint-fatal', RULES)


def test_every_alert_has_its_cases(rules):
    assert CASES.keys() == rules.keys()


@pytest.mark.parametrize('name', CASES)
def test_an_alert_alone_fires_for_its_cause_and_none_without(tmp_path, name):
    causes, others = CASES[name]
    run(tmp_path, [hour(name, causes, True), hour(name, others, False)])


def test_no_scheduler_at_all_is_down(tmp_path):
    run(tmp_path, [hour('NovaschedDown', {'up{job="other"}': '1x60'}, True)])


def test_the_first_boots_of_a_cloud_are_no_alert(tmp_path):
    few = {f'{ATTEMPTS}{{result="unschedulable"}}': '0x55 5x5'}
    run(tmp_path, [hour('NovaschedUnschedulable', few, False)])


def test_the_rules_use_names_of_the_catalogue(rules):
    found = {name: unknown_in(rule['expr']) for name, rule in rules.items()}
    assert {name: unknown for name, unknown in found.items() if unknown} == {}


def test_every_rule_says_how_bad_it_is(rules):
    severities = {name: rule['labels']['severity'] for name, rule in rules.items()}
    assert set(severities.values()) == {'critical', 'warning', 'info'}


def test_every_summary_ends_with_a_command_to_run(rules):
    last = {name: rule['annotations']['summary'] for name, rule in rules.items()}
    for text in last.values():
        check_command(shlex.split(text.rpartition(': ')[2]))


def test_every_alert_has_its_section(rules):
    headings = re.findall(r'^### (\w+)', PAGE.read_text(), re.MULTILINE)
    assert headings == list(rules)

# SPDX-License-Identifier: Apache-2.0
"""The Grafana dashboard: its layout, and its queries as promtool reads them."""

import json
import pathlib

import pytest
import yaml

from tests.functional.prometheus import promtool, unknown_in

ROOT = pathlib.Path(__file__).parents[2]
DASHBOARD = ROOT / 'etc' / 'novasched' / 'grafana' / 'novasched.json'
ROWS = ['Now', 'Latency', 'Stages', 'Why not', 'State']
OF_CORE = {'row', 'timeseries', 'heatmap', 'bargauge', 'stat', 'table', 'gauge'}
"""Panels that Grafana has without plugins."""
VARIABLES = {
    '$__rate_interval': '5m',
    '$__range': '1h',
    '$instance': 'controller-1:9108',
}


@pytest.fixture(scope='module')
def dashboard():
    return json.loads(DASHBOARD.read_text())


@pytest.fixture(scope='module')
def queries(dashboard):
    """Every query, with values in the place of Grafana's variables."""
    found = {}
    for panel in dashboard['panels']:
        for target in panel.get('targets', ()):
            query = target['expr']
            for variable, value in VARIABLES.items():
                query = query.replace(variable, value)
            found[f'{panel["title"]} {target["refId"]}'] = query
    return found


def test_promtool_parses_every_query(queries, tmp_path):
    rules = [
        {'record': f'dashboard:query:{number}', 'expr': query}
        for number, query in enumerate(queries.values())
    ]
    path = tmp_path / 'queries.yml'
    path.write_text(yaml.safe_dump({'groups': [{'name': 'queries', 'rules': rules}]}))
    assert f'{len(queries)} rules found' in promtool('check', 'rules', path)


def test_the_queries_use_names_of_the_catalogue(queries):
    found = {title: unknown_in(query) for title, query in queries.items()}
    assert {title: unknown for title, unknown in found.items() if unknown} == {}


def test_every_query_is_of_the_chosen_instances(queries):
    for query in queries.values():
        series = query.count('novasched_')
        assert query.count('instance=~"controller-1:9108"') == series, query


def test_there_are_five_rows_of_three_panels(dashboard):
    rows = [[]]
    for panel in dashboard['panels']:
        if panel['type'] == 'row':
            rows.append([panel['title']])
        else:
            rows[-1].append(panel)
    assert [row[0] for row in rows[1:]] == ROWS
    assert [len(row) - 1 for row in rows[1:]] == [3] * len(ROWS)
    assert rows[0] == []


def test_the_panels_are_of_core_and_explained(dashboard):
    for panel in dashboard['panels']:
        assert panel['type'] in OF_CORE
        assert panel['type'] == 'row' or panel['description'], panel['title']


def test_no_two_panels_share_a_place_or_an_id(dashboard):
    cells = [
        (x, y)
        for panel in dashboard['panels']
        for place in [panel['gridPos']]
        for x in range(place['x'], place['x'] + place['w'])
        for y in range(place['y'], place['y'] + place['h'])
    ]
    ids = [panel['id'] for panel in dashboard['panels']]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len(ids) == len(set(ids))


def test_the_variables(dashboard):
    variables = dashboard['templating']['list']
    assert dashboard['uid'] == 'novasched'
    assert [each['name'] for each in variables] == ['datasource', 'instance']
    assert unknown_in(variables[1]['definition'].partition(',')[0]) == []

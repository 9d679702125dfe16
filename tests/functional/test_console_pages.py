# SPDX-License-Identifier: Apache-2.0
"""The pages of the console on a cloud that is read: every link of each, and numbers."""

from urllib.parse import parse_qsl, urldefrag, urlsplit

import pytest

from novasched.console import app
from novasched.console import cloud as console
from novasched.decisions.writing import DecisionWriter
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.functional.commands import sources
from tests.functional.conftest import Host, named_uuid
from tests.support.records import decision_records
from tests.support.records.console_answers import SeenPage
from tests.support.records.stored_records import make_record, write

ODD = 'h/3 <b>"x" {{7*7}}'
HOSTS = (
    Host('h1', zone='az1'),
    Host('h2', zone='az1', disabled=True),
    Host(ODD, zone='az2', cell='cell2', memory_mb=4096),
    Host('h4', zone='az2', cell='cell2', down=True),
)
FLAVOR = 'vcpus=1,ram=2048,disk=10'


@pytest.fixture
def client(cloud, tmp_path):
    directory = tmp_path / 'decisions'
    made = cloud(HOSTS, novasched={'decisions_dir': str(directory)})
    now_s = int(SYSTEM_CLOCK.time())
    whole = [decision_records.scheduled(), decision_records.unschedulable()]
    volume = decision_records.request(
        flavor={**decision_records.FLAVOR, 'name': 'm1.volume'},
        image={'id': None, 'properties': {}},
    )
    of_volume = {'v': 1, 'servers': [], 'request': volume, 'decisions': []}
    writer = DecisionWriter(directory)
    write(
        writer,
        [
            make_record(now_s - 300, 'h1', uuid=named_uuid('one')),
            make_record(now_s - 200, None, uuid=named_uuid('two')),
            *(decision_records.changed(r, at=(now_s - 60) * 1_000_000) for r in whole),
            make_record(now_s - 50, None, flavor='m1.volume', body=of_volume),
            make_record(now_s - 20, ODD, flavor=ODD, uuid=named_uuid('three')),
        ],
    )
    writer.close()
    with console.opened(made.conf, sources(made)) as reader:
        yield app.create(reader).test_client()


def seen(client, path, status=200):
    answer = client.get(path)
    assert answer.status_code == status, f'{path}: {answer.text[-2000:]}'
    return SeenPage(answer.text)


def links(page):
    found = {urldefrag(each['href']).url for each, _ in page.all('a', href=None)}
    return {each for each in found if each.startswith('/')} - {'/metrics'}


def is_known(path):
    """Say whether a page is to be there: hosts of records made by hand are not."""
    return not path.startswith('/hosts/cmp-')


def said(link):
    """What a link asks for: its path with each parameter, and with all their names."""
    parts = urlsplit(link)
    asked = parse_qsl(parts.query, keep_blank_values=True)
    names = tuple(sorted(name for name, _ in asked))
    return {(parts.path, names), *((parts.path, *each) for each in asked)}


def test_every_link_of_every_page_opens(client):
    """But for those that put together anew what others have asked for."""
    starts = [
        *('/', '/capacity?by=zone', '/capacity?by=host', f'/plan?flavor={FLAVOR}'),
        f'/capacity?flavors={FLAVOR}&by=aggregate',
        f'/plan?flavor={FLAVOR}&zone=az2&what_if=disable%20*',
    ]
    waiting, opened, asked = list(starts), set(), set()
    while waiting:
        path = waiting.pop(0)
        if path in opened or said(path) <= asked:
            continue
        opened.add(path)
        asked |= said(path)
        answer = client.get(path)
        if path.startswith('/api/'):
            assert (answer.status_code, answer.json['v']) == (200, 1), path
            continue
        assert answer.status_code == 200, f'{path}: {answer.text[-1500:]}'
        page = SeenPage(answer.text)
        assert 'h/3 <b>"x" 49' not in page.text('title')
        waiting += sorted(each for each in links(page) - opened if is_known(each))
    paths = {path.partition('?')[0] for path in opened}
    assert {'/', '/decisions', '/plan', '/capacity', '/hosts', '/health'} <= paths
    assert '/hosts/h/3%20%3Cb%3E%22x%22%20%7B%7B7%2A7%7D%7D' in paths
    assert len(opened) > 60


def test_counts_and_lists_agree(client):
    overview = seen(client, '/')
    numbers = [
        (int(text), found['href']) for found, text in overview.all('a', class_='count')
    ]
    assert numbers
    for number, href in numbers:
        rows = seen(client, href).all('tr')
        assert len(rows) - 1 == number


def test_a_plan_names_hosts_or_what_would_change(client):
    page = seen(client, f'/plan?flavor={FLAVOR}&count=2')
    assert '2 of 2 servers fit' in page.text('section', id='result')
    assert 'h1' in page.text('table', id='weights')
    page = seen(client, '/plan?flavor=vcpus=1,ram=6000,disk=10&zone=az2')
    assert '0 of 1 server fits' in page.text('section', id='result')
    assert page.all('table', id='changes')
    page = seen(client, '/plan?flavor=m1.nothing', 400)
    assert page.all('input', name='flavor', value='m1.nothing')


def test_capacity_that_cannot_be_counted_leaves_what_was_typed(client):
    page = seen(client, f'/capacity?flavors={FLAVOR}&by=zone&what_if=hope', 400)
    assert FLAVOR in page.text('textarea', name='flavors')
    assert page.text('textarea', name='what_if') == 'hope'
    assert 'hope: this is no change' in page.text('section', id='result')
    for wrong in (f'flavors={FLAVOR}&by=rack', 'heat=m1.nothing', 'flavors=m1.nothing'):
        page = seen(client, f'/capacity?{wrong}', 400)
        assert page.all('form', id='capacity')


def test_a_plan_that_fits_in_part_shows_the_weights_of_the_first(client):
    page = seen(client, f'/plan?flavor={FLAVOR}&count=99')
    result = page.text('section', id='result')
    assert 'of 99 servers fit' in result
    assert 'Why the next one has no host' in result
    assert 'h1' in page.text('table', id='weights')


def test_a_server_that_boots_from_a_volume_can_be_planned_again(client):
    newest = client.get('/api/v1/decisions?flavor=m1.volume').json['decisions'][0]
    page = seen(client, f'/plan?like={newest["id"]}')
    assert '1 of 1 server fits' in page.text('section', id='result')
    assert f'--like {newest["id"]}' in page.text('section', id='result')


def test_square_links_to_the_hosts_of_its_label(client):
    page = seen(client, f'/hosts?name=h1,{"h4"}&flavor={FLAVOR}')
    names = [text for _, text in page.all('th', scope='row')]
    assert names == ['h1', 'h4']
    page = seen(client, '/hosts?name=h')
    assert page.all('table', id='hosts')[0][0]['data-total'] == '4'

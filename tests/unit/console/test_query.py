# SPDX-License-Identifier: Apache-2.0
"""Addresses: what is asked for in them, and those of other pages."""

from urllib.parse import unquote

import pytest

from novasched import errors
from novasched.commands.console_client import parameters
from novasched.console.pages import query
from novasched.console.pages.query import PageQuery
from novasched.inspection.session.orders import (
    CapacityOrder,
    DecisionsOrder,
    DrainOrder,
    HostsOrder,
    MoveOrder,
    PlanOrder,
    WhyNotOrder,
)


def asked(text='', path='/decisions'):
    given = [each.split('=', 1) for each in text.split('&') if each]
    return PageQuery(path, [(name, value) for name, value in given])


def test_criteria_are_words_and_times():
    found = asked('flavor=m1.large&since=2026-11-22T12:00:00Z&until=').criteria()
    assert (found.flavor, found.until, found.host) == ('m1.large', None, None)
    assert found.since == 1_795_348_800_000_000


@pytest.mark.parametrize(
    'text', ['since=yesterday', 'result=good', 'since=99999999999999d']
)
def test_criteria_that_mean_nothing(text):
    name = text.partition('=')[0]
    with pytest.raises(errors.OptionError, match=name):
        asked(text).criteria()


@pytest.mark.parametrize('count', ['0', '-1', '1.5', 'x', '٣', '1001', '9' * 400])
def test_a_count_that_is_none(count):
    with pytest.raises(errors.OptionError, match='count'):
        asked(f'count={count}').order(PlanOrder)


def test_a_limit_of_many_digits():
    assert asked('limit=0000000000007').order(HostsOrder).limit == 7
    with pytest.raises(errors.OptionError, match='limit'):
        asked('limit=000000001999999').order(HostsOrder)


def test_a_text_that_has_no_end():
    with pytest.raises(errors.OptionError, match='characters'):
        asked(f'flavor={"x" * 5000}').order(PlanOrder)


def test_hints_are_one_a_line_or_repeated():
    order = asked('flavor=f&hints=a=1\r\n\r\nb=2&hints=c=3&what_if=disable h1').order(
        PlanOrder
    )
    assert order.hints == ('a=1', 'b=2', 'c=3')
    assert order.what_if == ('disable h1',)


@pytest.mark.parametrize(
    'order',
    [
        PlanOrder(flavor='f', count=3, hints=('a=b', 'a=c'), seed=0, explain=True),
        PlanOrder(like='web', boot_from_volume=True, policy='affinity', fresh=True),
        MoveOrder(servers=('a', 'b'), to='h1', evacuate=True, what_if=('enable h2',)),
        DrainOrder(hosts=('h1', 'h2'), one_of=True),
        WhyNotOrder(host='h3/x', server='web', user_id='me'),
        CapacityOrder(('f', 'g'), 'zone', fresh=True),
        HostsOrder(name='rack1-*', state='down', page=3, limit=7),
        DecisionsOrder(flavor='f', result='error', since='7d', differs='yes'),
    ],
)
def test_parameters_of_an_order_say_the_same_order(order):
    assert PageQuery('/', parameters(order)).order(type(order)) == order


def test_capacity_and_hosts_have_the_names_of_their_orders():
    order = asked('flavors=a\nb&by=zone').capacity()
    assert (order.flavors, order.by) == (('a', 'b'), 'zone')
    with pytest.raises(errors.OptionError, match='2 to count hosts apart at most'):
        asked('by=host&flavors=a&flavors=b&flavors=c').capacity()
    order = asked('zone=az1&state=down&page=3&limit=7').order(HostsOrder)
    assert (order.zone, order.state, order.page, order.limit) == ('az1', 'down', 3, 7)


def test_an_address_with_another_value():
    one = asked('flavor=a b&before=d-1')
    assert one.href(before=None) == '/decisions?flavor=a+b'
    assert one.href(flavor='', before='d-2') == '/decisions?before=d-2'
    assert asked().href() == '/decisions'
    assert one.api() == '/api/v1/decisions?flavor=a+b&before=d-1'


def test_the_path_of_an_address_is_quoted():
    one = asked('page=2', path='/hosts/cmp#1?/x')
    assert one.href() == '/hosts/cmp%231%3F/x?page=2'
    assert one.api() == '/api/v1/hosts/cmp%231%3F/x?page=2'


@pytest.mark.parametrize('name', ['a/b', '..', '"><b>', 'a?b#c', '\u202eabc', '%2F'])
def test_names_are_the_end_of_a_path(name):
    found = query.of_host(name)
    assert found.startswith('/hosts/')
    assert not set(found) & set('?#"<>\u202e')
    assert unquote(found) == f'/hosts/{name}'


@pytest.mark.parametrize(
    ('by', 'value', 'address'),
    [
        ('host', 'cmp 1', '/hosts/cmp%201'),
        ('decision', 'd-1', '/decisions/d-1'),
        ('cell', 'cell1', '/hosts?cell=cell1'),
        ('slots', 'm1.large', '/capacity?heat=m1.large'),
        ('project', 'p', '/decisions?project=p'),
        ('', 'text', ''),
        ('host', None, ''),
    ],
)
def test_criterion_of_a_fact_opens_its_page(by, value, address):
    assert query.opened(by, value) == address

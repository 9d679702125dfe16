# SPDX-License-Identifier: Apache-2.0
"""Cells are opened once, as they are mapped."""

import pytest
import sqlalchemy as sa

from novasched import errors
from novasched.ports import Cell
from novasched_lab.cells import CellLinks
from tests.support.tables.cases import cases

URL = 'sqlite://'


class Api:
    def __init__(self, *cells):
        self.listed = list(cells)

    def cells(self):
        return self.listed

    def host_cell(self, host):
        return {'h1': 'one'}.get(host)

    def cell_of(self, uuid):
        return {'i1': 'one'}.get(uuid)


def cell(uuid, url=URL, transport='none:///'):
    return Cell(uuid, uuid, transport, url, False)


def made(*cells, make=None):
    opened = []

    def engine(url):
        opened.append(url)
        if make is not None:
            raise make
        return sa.create_engine(url)

    return CellLinks(Api(*cells), engine, lambda url: url), opened


def test_a_cell_is_opened_when_it_is_first_needed():
    cells, opened = made(cell('one'), cell('two'))
    assert opened == []
    assert cells.link('one') is cells.of_host('h1') is cells.of_instance('i1')
    assert len(opened) == 1
    assert cells.of_host('h2') is None
    assert cells.of_instance('i2') is None
    cells.close()
    cells.link('one')
    assert len(opened) == 2


def test_all_but_cell0_have_computes():
    cell0 = '00000000-0000-0000-0000-000000000000'
    cells, _ = made(cell(cell0), cell('one'))
    assert [link.cell.uuid for link in cells.with_computes()] == ['one']
    assert cells.cell0().computes is None
    assert cells.link('one').computes is None  # it has no broker


def test_remapped_cell_is_opened_again():
    cells, opened = made(cell('one'))
    cells.with_computes()
    cells._api.listed = [cell('one', 'sqlite:///other')]
    cells.with_computes()
    assert opened == [URL, 'sqlite:///other']


@cases(
    'cells, wanted',
    ('one that is not mapped', made(cell('one')), 'two'),
    ('one without a database', made(cell('one', None)), 'one'),
    (
        'one whose URL is wrong',
        made(cell('one'), make=errors.OptionError('o', 'bad', 'mend')),
        'one',
    ),
)
def test_cells_that_cannot_be_asked(cells, wanted):
    with pytest.raises(errors.StoreFailed):
        cells[0].link(wanted)

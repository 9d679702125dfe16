# SPDX-License-Identifier: Apache-2.0
"""Where the files of the decision log are, and which of them count."""

import os
import stat

import pytest

from novasched import errors
from novasched.decisions import files
from novasched.decisions.files import StoreSettings
from tests.support.clouds.configuration import make_conf

MIB = 1 << 20


@pytest.fixture
def conf(tmp_path):
    return make_conf(novasched={'decisions_dir': str(tmp_path / 'decisions')})


def test_configured_directory_is_made_and_found(conf, tmp_path):
    chosen = files.from_conf(conf)
    assert chosen == (str(tmp_path / 'decisions'), None)
    assert os.listdir(tmp_path) == []  # root may only be looking
    assert files.from_conf(conf, makes=True) == chosen
    assert stat.S_IMODE((tmp_path / 'decisions').stat().st_mode) == 0o700
    with pytest.raises(errors.OptionError, match='there are no records'):
        files.existing(conf)
    (tmp_path / 'decisions' / '000001.sqlite').touch()
    assert files.existing(conf) == tmp_path / 'decisions'


def test_it_is_beside_the_journal_by_default(tmp_path):
    conf = make_conf(state_path=str(tmp_path))
    assert files.from_conf(conf).path == f'{tmp_path}/novasched/decisions'


def test_unreadable_directory_is_an_option_error(conf, tmp_path):
    (tmp_path / 'decisions').symlink_to('decisions')
    with pytest.raises(errors.OptionError, match='Run this as root'):
        files.existing(conf)


def test_files_are_ordered_by_their_numbers(tmp_path):
    for name in (
        *('1000000.sqlite', '000002.sqlite.broken', '000002.sqlite-wal'),
        *(
            '000003.sqlite-shm',
            '000003.sqlite',
            '000001.sqlite',
            '1.sqlite',
            'a.sqlite',
        ),
    ):
        (tmp_path / name).touch()
    found = files.numbered(tmp_path)
    assert [(each.number, each.is_database) for each in found] == [
        (1, True), (2, False), (3, True), (1000000, True)
    ]  # fmt: skip
    assert found[2].path == tmp_path / '000003.sqlite'
    assert len(found[2].paths) == 2


def test_a_number_is_never_given_twice(tmp_path):
    (tmp_path / '000004.sqlite.broken').touch()
    assert files.begin(tmp_path, 0, 0.0).name == '000005.sqlite'


@pytest.mark.parametrize(
    ('most', 'of_a_file'), [(512, 64 * MIB), (64, 8 * MIB), (4096, 64 * MIB)]
)
def test_a_file_is_an_eighth_of_all(most, of_a_file):
    conf = make_conf(novasched={'decisions_max_mb': most, 'decisions_max_days': 2})
    settings = StoreSettings.from_conf(conf)
    assert (settings.max_bytes, settings.file_bytes) == (most * MIB, of_a_file)
    assert (settings.max_age_s, settings.keep) == (2 * 86400, 'all')

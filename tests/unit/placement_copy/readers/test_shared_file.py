# SPDX-License-Identifier: Apache-2.0
"""Placement's API, read by one process of a machine for all."""

import dataclasses
import fcntl
import os
import threading

import numpy as np
import pytest
from keystoneauth1 import loading

from novasched import errors
from novasched.inspection.session.copy_on_demand import JUST_READ_S, CopyOnDemand
from novasched.placement_copy.readers.api import ApiReader
from novasched.placement_copy.readers.shared_file import (
    ABANDONED_S,
    LOCK,
    WANTED,
    MachineCopy,
    SharedFileReader,
    load,
    path_in,
    save,
)
from novasched.providers.hints import CloudHints
from tests.support.clouds.configuration import make_conf
from tests.support.placement.placement_api import says

NAME = 'placement-copy-1.npz'


@pytest.fixture
def make_store(world_api, tmp_path, clock):
    """Return a maker of the store of one more process."""
    made = []

    def make(directory=tmp_path):
        inner = ApiReader(world_api[0], 1.0, clock)
        made.append(SharedFileReader(inner, directory / NAME, clock))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def script(world_api):
    return world_api[1]


def test_read_of_one_process_serves_all(make_store, world, script, clock):
    mine, other = make_store(), make_store()
    contents = mine.read()
    asked = len(script.asked)
    clock.advance(7)
    found = other.read()
    assert says(found) == says(contents)
    assert found.members == contents.members
    assert np.array_equal(found.providers, contents.providers)
    assert (mine.behind_s, other.behind_s) == (0, 7)
    assert other.read_since(found, include_unversioned=True) is found
    assert len(script.asked) == asked
    world.write('h1', used={'VCPU': 5})
    mine.read_since(contents, include_unversioned=False)
    after = other.read_since(found, include_unversioned=False)
    assert other.behind_s == 0
    assert after.traits is found.traits
    assert says(after)['h1']['inventories']['VCPU'][-1] == 5


def test_a_look_that_shows_nothing_new_makes_all_copies_younger(make_store, clock):
    mine, other = make_store(), make_store()
    contents = mine.read()
    for _ in range(9):
        contents = mine.read_since(contents, include_unversioned=False)
    found = other.read()
    clock.advance(30)
    mine.read_since(contents, include_unversioned=False)
    clock.advance(1)
    assert other.read_since(found, include_unversioned=False) is found
    assert other.behind_s == 1


def test_the_next_process_goes_on_when_the_one_that_reads_has_ended(make_store, world):
    mine, other = make_store(), make_store()
    mine.read()
    found = other.read()
    mine.close()
    world.write('h1', used={'VCPU': 5})
    after = other.read_since(found, include_unversioned=False)
    assert says(after)['h1']['inventories']['VCPU'][-1] == 5


def test_second_process_waits_for_the_first_load(make_store, world, tmp_path):
    mine, other, found = make_store(), make_store(), []
    with open((tmp_path / NAME).with_suffix(LOCK), 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = threading.Thread(target=lambda: found.append(other.read()))
        waiting.start()
        waiting.join(0.05)
        assert waiting.is_alive()
    mine.read()
    waiting.join(20)
    assert found


def test_a_wait_ends_when_the_store_is_closed(make_store, tmp_path):
    store = make_store()
    with open((tmp_path / NAME).with_suffix(LOCK), 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        store.close()
        with pytest.raises(errors.StoreFailed, match='closed'):
            store.read()


def name_of(directory, auth_group='placement', **values):
    """Return the name of the file for the placement of these options."""
    conf = make_conf()
    plugin = loading.get_plugin_loader('password')
    conf.register_opts(loading.get_auth_common_conf_options(), auth_group)
    conf.register_opts(loading.get_auth_plugin_conf_options(plugin), auth_group)
    conf.set_override('auth_section', auth_group, 'placement')
    values = {'auth_type': 'password', 'auth_url': 'http://one:5000', **values}
    for option, value in values.items():
        group = auth_group if option.startswith('auth_') else 'placement'
        conf.set_override(option, value, group)
    return path_in(directory, conf).name


@pytest.mark.parametrize('auth_group', ['placement', 'keystone'])
@pytest.mark.parametrize(
    'other',
    [
        {'auth_url': 'http://other:5000'},
        {'endpoint_override': 'http://placement'},
        {'region_name': 'other'},
        {'service_type': 'placement-test'},
        {'valid_interfaces': ['public']},
    ],
    ids=lambda other: next(iter(other)),
)
def test_each_placement_has_a_file_of_its_own(tmp_path, auth_group, other):
    name = name_of(tmp_path, auth_group)
    assert (
        name == name_of(tmp_path, auth_group) != name_of(tmp_path, auth_group, **other)
    )


def test_files_of_a_placement_that_is_read_no_more_are_removed(
    make_store, tmp_path, clock
):
    for name, age_s in (('old', ABANDONED_S + 1), ('new', ABANDONED_S - 1)):
        for suffix in ('.npz', LOCK, WANTED):
            file = tmp_path / f'placement-copy-{name}{suffix}'
            file.touch()
            os.utime(file, (clock.time() - age_s,) * 2)
    make_store().read()
    kept = {each.stem for each in tmp_path.iterdir()}
    assert kept == {'placement-copy-new', 'placement-copy-1'}


def test_reading_process_serves_the_hints_of_others(make_store, world):
    world.write('h1', aggregates=['a9'])
    mine, other = make_store(), make_store()
    contents = mine.read()
    hints = CloudHints(aggregates=lambda: ['a9'])
    found = other.read_since(other.read(), True, hints=hints)
    mine.read_since(contents, include_unversioned=False)
    assert other.read_since(found, True, hints=hints).knows(['a9'])


def test_a_store_that_was_closed_takes_no_lock(make_store, tmp_path):
    """As when a scheduler ends while another one of the same process goes on."""
    mine, other = make_store(), make_store()
    mine.read()
    mine.close()
    with pytest.raises(errors.StoreFailed, match='closed'):
        mine.read()
    other.read()
    assert other._is_reader


def test_time_that_is_set_back_makes_no_copy_younger(make_store, clock):
    mine, other = make_store(), make_store()
    mine.read()
    other.read()
    clock.advance(40)
    clock.set_back(3600)
    other.read()
    assert other.behind_s == 40


def test_without_a_directory_that_can_be_written_each_reads(
    make_store, tmp_path, caplog
):
    for _ in range(2):
        store = make_store(tmp_path / 'none')
        contents = store.read()
        assert len(contents.providers) == 5
        assert store.read_since(contents, include_unversioned=False) is contents
    assert caplog.text.count('reads placement for itself') == 2


@pytest.mark.parametrize('content', [b'', b'nonsense', b'PK\x05\x06' + 18 * b'\0'])
def test_a_file_that_is_none(make_store, tmp_path, content):
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(errors.StoreFailed, match='cannot be read'):
        load(tmp_path / NAME)
    assert len(make_store().read().providers) == 5
    assert len(load(tmp_path / NAME).providers) == 5


def test_file_left_by_a_killed_process_is_not_written_to(make_store, tmp_path):
    """It may belong to another user, or lead elsewhere."""
    elsewhere = tmp_path / 'elsewhere'
    elsewhere.write_text('kept')
    (tmp_path / 'placement-copy-1.new').symlink_to(elsewhere)
    make_store().read()
    assert elsewhere.read_text() == 'kept'
    assert len(load(tmp_path / NAME).providers) == 5


class TestCopiesForInspections:
    @pytest.fixture
    def copies(self, world_api, make_store, tmp_path, script, clock):
        """Copies beside a scheduler that has just read one."""
        self.scheduler = make_store()
        self.known = self.scheduler.read()
        script.requests.clear()
        store = ApiReader(world_api[0], 1.0, clock)
        of_machine = MachineCopy(tmp_path / NAME, clock)
        return CopyOnDemand(store, of_machine=of_machine, clock=clock)

    def test_fresh_copy_of_the_machine_is_used(self, copies, script, clock):
        first = copies(['a1'])
        assert (len(first.table), first.source, script.asked) == (5, 'api', [])
        assert copies() is first
        clock.advance(JUST_READ_S)
        assert copies() is first
        clock.advance(1)
        assert copies().as_of == clock.monotonic()
        assert (copies.age_s(), bool(script.asked)) == (0, True)

    def test_an_aggregate_that_it_does_not_know_is_asked_for(self, copies, world):
        world.write('h1', aggregates=['a9'])
        table = copies(['a9']).table
        assert table.members['a9'].tolist() == [table.rows_by_uuid['h1']]

    def test_one_that_is_to_be_fresh_is_read(self, copies, script, clock):
        clock.advance(1)
        copies.renew()
        copies()
        assert script.asked

    def test_copy_too_old_for_a_question_is_refreshed(
        self, copies, script, clock, world
    ):
        copies()
        clock.advance(6)
        assert copies(max_age_s=5).as_of == clock.monotonic()
        clock.advance(6)
        world.write('h1', traits=['T2'])
        script.requests.clear()
        table = copies(max_age_s=5).table
        assert table.having_all(['T2'])[table.rows_by_uuid['h1']]
        assert len(script.asked) < 40

    def test_the_machine_may_have_a_newer_one(self, copies, clock):
        clock.advance(1)
        copies.renew()
        copies()
        clock.advance(5)
        self.scheduler.read_since(self.known, include_unversioned=False)
        assert copies().as_of == clock.monotonic() - 5
        self.scheduler.read_since(self.known, include_unversioned=True)
        assert copies().as_of == clock.monotonic()

    def test_a_copy_whose_rows_do_not_fit_together_is_refused(self, copies, tmp_path):
        whole = copies()
        broken = dataclasses.replace(whole.contents, class_names={})
        save(broken, tmp_path / NAME)
        assert len(copies().table) == 5  # was read instead
        copies.change = lambda contents: dataclasses.replace(contents, class_names={})
        copies._changed = None, None
        with pytest.raises(errors.StoreFailed, match='is inconsistent'):
            copies()

    def test_after_the_time_was_set_back_it_is_old(self, copies, clock, tmp_path):
        later = clock.time() + 3600
        (tmp_path / NAME).with_suffix(LOCK).write_text(f'{later} {later}')
        assert copies().as_of == clock.monotonic()

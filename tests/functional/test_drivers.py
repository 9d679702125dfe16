# SPDX-License-Identifier: Apache-2.0
"""Drivers other than the default answer through the endpoints."""

from tests.functional.conftest import Host, new_uuids
from tests.support.tables.cases import cases
from tests.unit.observability.recorder import FakeRecorder

HOSTS = [
    Host('h1', vcpus=1),
    Host('h2'),
    Host('h3', cell='cell2'),
    Host('h4', disabled=True),
    Host('h5', down=True),
]
HERE = __name__
STAGE = 'novasched_framework_extension_point_duration_seconds'
CLAIMING = ('PreFilter', 'Query', 'Claim')
LAST_BY_NAME = 'tests.plugins.last_by_name.LastByName'


def driven_by(name):
    """Options that choose a driver."""
    return {'scheduler': {'driver': name}}


class TestChance:
    def test_any_host_that_is_up_is_drawn_and_nothing_is_claimed(self, cloud):
        made = cloud(HOSTS, **driven_by('chance_scheduler'))
        made.serve()
        found = made.call(new_uuids(3), vcpus=1000)
        selected = [each[0] for each in found]
        assert {each.service_host for each in selected} == {'h1', 'h2', 'h3'}
        for each in selected:
            host = made.hosts[each.service_host]
            assert each.nodename == host.name
            assert each.compute_node_uuid == host.uuid
            assert each.cell_uuid == made.cell_uuids[host.cell]
            assert each.allocation_request == 'null'
            assert each.limits.to_dict() == {}
        assert not made.faults.seen
        assert made.held() == {}
        assert [phase for phase, _ in made.notifications] == ['start', 'end']


class FirstByName:
    """A driver as one for nova 12 would be."""

    def select_destinations(self, context, request_spec, filter_properties):
        hosts = self.host_manager.get_all_host_states(context)
        first = min(hosts, key=lambda host: host.host)
        found = {'host': first.host, 'nodename': first.nodename, 'limits': {}}
        return [found] * request_spec['num_instances']


class TestForeign:
    def test_it_chooses_and_what_it_chose_is_claimed(self, cloud):
        made = cloud(HOSTS, **driven_by(LAST_BY_NAME))
        made.serve()
        (uuid,) = new_uuids()
        (found,) = made.call([uuid])
        assert [each.service_host for each in found] == ['h3', 'h2', 'h1']
        assert made.held() == {uuid: {'h3'}}

    def test_one_of_old_claims_nothing(self, cloud):
        made = cloud(HOSTS, **driven_by(f'{HERE}.FirstByName'))
        made.serve()
        found = made.call(new_uuids(2))
        assert [each.service_host for (each,) in found] == ['h1', 'h1']
        assert made.held() == {}


@cases(
    'driver, points',
    ('default', 'filter_scheduler', {*CLAIMING, 'Filter', 'Score'}),
    ('written for nova', LAST_BY_NAME, {*CLAIMING, 'Filter', 'Score'}),
    ('chance', 'chance_scheduler', set()),
)
def test_stages_of_a_request_are_measured_with_any_driver(cloud, driver, points):
    made, recorder = cloud(HOSTS, **driven_by(driver)), FakeRecorder()
    scheduler = made.compose(instrumentation=made.instrumentation(recorder))
    assert made.ask(scheduler, new_uuids())
    assert len(made.decisions) == 1
    measured = {labels[0] for name, *labels in recorder.observed if name == STAGE}
    assert measured - {'Refresh'} == points

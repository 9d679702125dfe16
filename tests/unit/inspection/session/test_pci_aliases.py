# SPDX-License-Identifier: Apache-2.0
"""Aliases of PCI devices, as a configuration names them."""

import json

import pytest
from oslo_config import cfg

from novasched import errors
from novasched.inspection.session.pci_aliases import PciAliases
from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched.process import opts
from tests.support.clouds import factories
from tests.support.tables.cases import cases

ID = 'c0000000-0000-4000-8000-000000000001'
NIC = json.dumps({'name': 'nic', 'vendor_id': '8086', 'product_id': '1572'})


def conf_of(*aliases):
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override('alias', list(aliases), 'pci')
    return conf


def request_for(alias):
    return factories.request(extra_specs={'pci_passthrough:alias': alias})


def test_devices_are_asked_for_by_their_alias():
    aliases = PciAliases.from_conf(conf_of(NIC))
    (request,) = aliases.requests_of(request_for('nic:2')).requests
    assert (request.count, request.alias_name) == (2, 'nic')
    assert request.spec == [{'vendor_id': '8086', 'product_id': '1572'}]


def test_unknown_alias_is_refused():
    with pytest.raises(errors.InvalidDemand, match='PCI alias gpu is not defined'):
        PciAliases.from_conf(conf_of(NIC)).requests_of(request_for('gpu:1'))


@pytest.mark.parametrize('count', ['', '0', '²', '9' * 30, '9' * 5000])
def test_numbers_of_devices_that_cannot_be(count):
    with pytest.raises(errors.InvalidDemand, match='is not defined'):
        PciAliases.from_conf(conf_of(NIC)).requests_of(request_for(f'nic:{count}'))


def test_devices_of_ports_stay_when_a_flavor_asks_for_others():
    port = InstancePCIRequest.made_of(count=1, alias_name=None, spec=[{}])
    request = request_for('nic:1')
    request = request.replaced(pci_requests=InstancePCIRequests(requests=[port]))
    found = PciAliases.from_conf(conf_of(NIC)).requests_of(request)
    assert [each.alias_name for each in found.requests] == ['nic', None]


def tracked(count, *specs, alias='nic'):
    specs = specs or ({'vendor_id': '8086', 'product_id': '1572'},)
    asked = InstancePCIRequest.made_of(
        count=count, alias_name=alias, spec=list(specs), request_id=ID
    )
    return InstancePCIRequests(requests=[asked])


def test_each_device_that_placement_tracks_is_a_group():
    conf = conf_of(NIC)
    conf.set_override('pci_in_placement', True, 'filter_scheduler')
    groups = PciAliases.from_conf(conf).groups_of(tracked(2))
    assert [(each.requester_id, each.resources) for each in groups] == [
        (f'{ID}-{number}', {'CUSTOM_PCI_8086_1572': 1}) for number in range(2)
    ]


@cases(
    'in_placement, devices',
    ('placement tracks none', False, tracked(2)),
    ('those of a port', True, tracked(2, alias=None)),
    ('no devices', True, None),
)
def test_devices_that_placement_does_not_track_are_no_groups(in_placement, devices):
    assert PciAliases(in_placement=in_placement).groups_of(devices) == []


@cases(
    'devices, words',
    ('of two kinds', tracked(1, {}, {}), 'multiple specs'),
    ('more than a query may have', tracked(2**31 - 1), '1024 devices at most'),
)
def test_devices_that_placement_cannot_be_asked_for_are_refused(devices, words):
    with pytest.raises(errors.InvalidDemand, match=words):
        PciAliases(in_placement=True).groups_of(devices)


def test_an_alias_that_is_no_json_is_named():
    with pytest.raises(errors.OptionError, match='alias'):
        PciAliases.from_conf(conf_of('{'))

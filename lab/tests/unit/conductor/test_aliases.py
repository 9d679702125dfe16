# SPDX-License-Identifier: Apache-2.0
"""Aliases of PCI devices, as a configuration names them."""

from __future__ import annotations

import json

import pytest
from oslo_config import cfg

from novasched import errors
from novasched_lab import opts
from novasched_lab.conductor.aliases import Aliases
from tests import factories

NIC = json.dumps({'name': 'nic', 'vendor_id': '8086', 'product_id': '1572'})


def conf_of(*aliases, in_placement=False):
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override('alias', list(aliases), 'pci')
    conf.set_override('pci_in_placement', in_placement, 'filter_scheduler')
    return conf


def request_for(alias):
    return factories.request(extra_specs={'pci_passthrough:alias': alias})


def test_devices_are_asked_for_by_their_alias():
    aliases = Aliases.from_conf(conf_of(NIC))
    (request,) = aliases.requests_of(request_for('nic:2')).requests
    assert (request.count, request.alias_name) == (2, 'nic')
    assert request.spec == [{'vendor_id': '8086', 'product_id': '1572'}]


@pytest.mark.parametrize(
    ('in_placement', 'groups'),
    [
        pytest.param(False, 0, id='placement is not asked for devices'),
        pytest.param(True, 2, id='placement is asked for each device'),
    ],
)
def test_placement_is_asked_for_devices_if_it_knows_them(in_placement, groups):
    aliases = Aliases.from_conf(conf_of(NIC, in_placement=in_placement))
    devices = aliases.requests_of(request_for('nic:2'))
    found = aliases.groups_of(devices)
    assert [each.resources for each in found] == [{'CUSTOM_PCI_8086_1572': 1}] * groups


def test_an_alias_that_nobody_knows_is_refused():
    with pytest.raises(errors.InvalidDemand, match='PCI alias gpu:1 is not defined'):
        Aliases.from_conf(conf_of(NIC)).requests_of(request_for('gpu:1'))


def test_an_alias_that_is_no_json_is_named():
    with pytest.raises(errors.OptionError, match='alias'):
        Aliases.from_conf(conf_of('{'))

# SPDX-License-Identifier: Apache-2.0
"""Aliases of PCI devices, as a configuration names them."""

import json

import pytest
from oslo_config import cfg

from novasched import errors
from novasched.inspection.pci_aliases import PciAliases
from novasched.process import opts
from tests import factories

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


def test_an_alias_that_nobody_knows_is_refused():
    with pytest.raises(errors.InvalidDemand, match='PCI alias gpu:1 is not defined'):
        PciAliases.from_conf(conf_of(NIC)).requests_of(request_for('gpu:1'))


@pytest.mark.parametrize('count', ['', '0', '²', '9' * 30, '9' * 5000])
def test_numbers_of_devices_that_cannot_be(count):
    with pytest.raises(errors.InvalidDemand, match='is not defined'):
        PciAliases.from_conf(conf_of(NIC)).requests_of(request_for(f'nic:{count}'))


def test_an_alias_that_is_no_json_is_named():
    with pytest.raises(errors.OptionError, match='alias'):
        PciAliases.from_conf(conf_of('{'))

# SPDX-License-Identifier: Apache-2.0
"""Words are folded, and nonsense is refused."""

import datetime

import netaddr
import pytest

from novasched.objects import fields, machine
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from novasched.objects.instance import Instance
from novasched.objects.network import NetworkRequest


@pytest.mark.parametrize(
    ('name', 'given', 'kept'),
    [
        ('hw_architecture', 'AMD64', 'x86_64'),
        ('hw_architecture', 'i386', 'i686'),
        ('hw_architecture', 'i486', 'i686'),
        ('hw_architecture', 'i586', 'i686'),
        ('hw_architecture', 'x86_32', 'i686'),
        ('hw_architecture', 'x86_32p', 'i686'),
        ('hw_architecture', 'AArch64', 'aarch64'),
        ('img_hv_type', 'xapi', 'xen'),
        ('img_hv_type', 'KVM', 'kvm'),
        ('hw_vm_mode', 'pv', 'xen'),
        ('hw_vm_mode', 'HV', 'hvm'),
        ('hw_vm_mode', 'baremetal', 'hvm'),
        ('os_type', 'Windows', 'windows'),
        ('hw_scsi_model', 'lsiLogicsas', 'lsisas1068'),
        ('hw_scsi_model', 'paraVirtual', 'vmpvscsi'),
        ('hw_vif_model', 'VirtualE1000', 'e1000'),
        ('hw_vif_model', 'VirtualE1000e', 'e1000e'),
        ('hw_vif_model', 'VirtualPCNet32', 'pcnet'),
        ('hw_vif_model', 'VirtualSriovEthernetCard', 'sriov'),
        ('hw_vif_model', 'VirtualVmxnet', 'vmxnet'),
        ('hw_vif_model', 'virtualvmxnet3', 'vmxnet3'),
        ('hw_boot_menu', 'yes', True),
        ('hw_boot_menu', 'off', False),
        ('hw_boot_menu', '1', True),
        ('img_hv_requested_version', '>=1.0,<2.0', '>=1.0,<2.0'),
        ('hw_cpu_cores', '4', 4),
    ],
)
def test_folding(name, given, kept):
    props = ImageMetaProps(**{name: given})
    assert getattr(props, name) == kept


@pytest.mark.parametrize(
    ('name', 'value'),
    [
        ('hw_architecture', 'z80'),
        ('hw_architecture', 5),
        ('img_hv_type', 'word'),
        ('hw_disk_bus', 'VIRTIO'),
        ('img_hv_requested_version', 'new'),
        ('hw_cpu_cores', 'four'),
        ('hw_numa_cpus', '0,1'),
    ],
)
def test_nonsense_is_refused(name, value):
    with pytest.raises((ValueError, TypeError)):
        ImageMetaProps(**{name: value})


def test_a_kind_can_fold_a_word_outside_an_object():
    assert machine.ARCHITECTURE.coerce(None, 'arch', 'amd64') == 'x86_64'


@pytest.mark.parametrize(
    'text', ['2026-01-02T03:04:05Z', '2026-01-02T04:04:05+01:00', '2026-01-02T03:04:05']
)
def test_times_are_written_in_utc(text):
    image = ImageMeta(created_at=text)
    assert image.created_at == datetime.datetime(
        2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC
    )
    written = image.obj_to_primitive()['nova_object.data']['created_at']
    assert datetime.datetime.fromisoformat(written) == image.created_at


def test_addresses():
    request = NetworkRequest(address='10.0.0.3')
    assert request.address == netaddr.IPAddress('10.0.0.3')
    assert request.obj_to_primitive()['nova_object.data'] == {'address': '10.0.0.3'}
    with pytest.raises(ValueError):
        Instance(access_ip_v4='::1')


@pytest.mark.parametrize('number', [2**63, -(2**63) - 1, 10**30])
def test_a_number_beyond_64_bits_is_refused(number):
    with pytest.raises(ValueError, match='too large'):
        fields.INTEGER.coerce(None, 'memory_mb', number)

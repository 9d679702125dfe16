# SPDX-License-Identifier: Apache-2.0
"""Words for kinds of machine, with the other names that they go by."""

from __future__ import annotations

import functools

from novasched.objects import fields

# fmt: off
ARCHITECTURES = (
    'alpha', 'armv6', 'armv7l', 'armv7b', 'aarch64', 'cris', 'i686', 'ia64', 'lm32',
    'm68k', 'microblaze', 'microblazeel', 'mips', 'mipsel', 'mips64', 'mips64el',
    'openrisc', 'parisc', 'parisc64', 'ppc', 'ppcle', 'ppc64', 'ppc64le', 'ppcemb',
    's390', 's390x', 'sh4', 'sh4eb', 'sparc', 'sparc64', 'unicore32', 'x86_64',
    'xtensa', 'xtensaeb',
)
HYPERVISOR_TYPES = (
    'baremetal', 'bhyve', 'docker', 'fake', 'hyperv', 'ironic', 'kqemu', 'kvm', 'lxc',
    'lxd', 'openvz', 'parallels', 'phyp', 'qemu', 'test', 'uml', 'vbox', 'vz', 'vmware',
    'xen', 'zvm', 'prsm',
)
VM_MODES = ('hvm', 'xen', 'uml', 'exe')
SCSI_MODELS = (
    'buslogic', 'ibmvscsi', 'lsilogic', 'lsisas1068', 'lsisas1078', 'virtio-scsi',
    'vmpvscsi',
)
VIF_MODELS = (
    'virtio', 'ne2k_pci', 'pcnet', 'rtl8139', 'e1000', 'e1000e', 'netfront',
    'spapr-vlan', 'lan9118', 'sriov', 'vmxnet', 'vmxnet3', 'igb',
)
# fmt: on
DISK_BUSES = ('fdc', 'ide', 'sata', 'scsi', 'usb', 'virtio', 'xen', 'lxc', 'uml')

ARCHITECTURE = fields.FoldedEnum(
    ARCHITECTURES,
    {
        **dict.fromkeys(('i386', 'i486', 'i586', 'x86_32', 'x86_32p'), 'i686'),
        'amd64': 'x86_64',
    },
)
HYPERVISOR_TYPE = fields.FoldedEnum(HYPERVISOR_TYPES, {'xapi': 'xen'})
VM_MODE = fields.FoldedEnum(VM_MODES, {'pv': 'xen', 'hv': 'hvm', 'baremetal': 'hvm'})
SCSI_MODEL = fields.FoldedEnum(
    SCSI_MODELS, {'lsilogicsas': 'lsisas1068', 'paravirtual': 'vmpvscsi'}
)
VIF_MODEL = fields.FoldedEnum(
    VIF_MODELS,
    {
        'virtuale1000': 'e1000',
        'virtuale1000e': 'e1000e',
        'virtualpcnet32': 'pcnet',
        'virtualsriovethernetcard': 'sriov',
        'virtualvmxnet': 'vmxnet',
        'virtualvmxnet3': 'vmxnet3',
    },
)

architecture = functools.partial(fields.field, ARCHITECTURE)
hypervisor_type = functools.partial(fields.field, HYPERVISOR_TYPE)
vm_mode = functools.partial(fields.field, VM_MODE)
scsi_model = functools.partial(fields.field, SCSI_MODEL)
vif_model = functools.partial(fields.field, VIF_MODEL)
disk_bus = functools.partial(fields.enum, *DISK_BUSES)

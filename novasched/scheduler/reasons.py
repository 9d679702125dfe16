# SPDX-License-Identifier: Apache-2.0
"""Reasons of rejections: a code from a closed list, and a text with the numbers; and
the outcomes of hosts, one byte each."""

from __future__ import annotations

import enum
import re
from typing import NamedTuple, Self

NOT_A_CANDIDATE, PASSED, FIRST_STEP, LAST_STEP, NOT_NAMED = 0, 1, 2, 254, 255
"""Outcomes of a host: not offered by placement, passed, rejected by a step of the
filters from FIRST_STEP on, or not named by the request. Later steps share LAST_STEP."""


class _Word(enum.StrEnum):
    """Word of a closed list; ``doc`` says what it means."""

    doc: str

    def __new__(cls, word: str, doc: str) -> Self:
        made = str.__new__(cls, word)
        made._value_ = word
        made.doc = doc
        return made


class Blocker(_Word):
    """What ended a request that was not scheduled."""

    PREFILTER = (
        'prefilter',
        'A prefilter refused the request before any host was looked at.',
    )
    NAMED_HOST = 'named-host', 'The request names a host or node that is not known.'
    PLACEMENT_FAILED = (
        'placement-failed',
        'Placement did not answer, or answered with an error.',
    )
    NO_CANDIDATES = 'no-candidates', 'Placement has no host with what is asked for.'
    UNKNOWN_HOSTS = (
        'unknown-hosts',
        'Placement offered hosts, but none of them has a compute node and a service '
        'that are known.',
    )
    FILTERS = 'filters', 'The filters rejected every host.'
    CLAIMS = (
        'claims',
        'Hosts passed the filters, but placement granted the resources of none.',
    )
    CALLER_GONE = 'caller-gone', 'The conductor that asked waits no more.'
    PLUGIN = 'plugin', 'A filter, weigher or driver raised an error.'
    STORE = 'store', 'A database could not be read.'
    ERROR = 'error', 'The scheduler failed in a way that has no name.'


class Code(_Word):
    """Code of a rejection; programs distinguish reasons by it, people read the text."""

    REJECTED = 'rejected', 'The filter does not say why.'
    NOT_ASKED = 'not-asked', 'Nothing was asked why these hosts were rejected.'

    NOT_NAMED = 'not-named', 'The request names other hosts.'
    UNKNOWN_HOST = (
        'unknown-host',
        'Placement offers it, but no compute node or service of it is known.',
    )
    CELL_LEFT_OUT = (
        'cell-left-out',
        'Placement offers it, but a cell that does not answer is left out.',
    )

    DISABLED = 'disabled', 'The provider has the trait COMPUTE_STATUS_DISABLED.'
    NOT_IN_TREE = 'not-in-tree', 'The request names another host or provider tree.'
    AGGREGATE_MISSING = 'aggregate-missing', 'Not in an aggregate that is asked for.'
    AGGREGATE_FORBIDDEN = 'aggregate-forbidden', 'In an aggregate that is ruled out.'
    TRAIT_MISSING = 'trait-missing', 'A required trait is missing.'
    TRAIT_FORBIDDEN = 'trait-forbidden', 'A forbidden trait is there.'
    CLASS_MISSING = 'class-missing', 'No inventory of a resource class.'
    AMOUNT_NOT_ALLOWED = (
        'amount-not-allowed',
        'The amount is beyond max_unit, below min_unit, or no multiple of step_size.',
    )
    EXHAUSTED = 'exhausted', 'Too little of a resource class is free.'
    NOT_TOGETHER = (
        'not-together',
        'Providers of the host meet each condition of the query, but not all at once.',
    )

    SERVICE_DISABLED = 'service-disabled', 'An operator disabled the compute service.'
    SERVICE_FORCED_DOWN = 'service-forced-down', 'The service was declared down.'
    SERVICE_DOWN = 'service-down', 'The service was not heard from in time.'
    WRONG_ZONE = 'wrong-zone', 'The host is in another availability zone.'
    TRIED_BEFORE = 'tried-before', 'The request failed on this host already.'
    NOT_TRUSTED = 'not-trusted', 'The attested level of trust is another.'

    CAPABILITY_MISSING = 'capability-missing', 'The host reports no such capability.'
    CAPABILITY_DIFFERS = 'capability-differs', 'The host reports another value.'
    METRIC_MISSING = 'metric-missing', 'The host does not report a metric.'
    QUERY_NOT_SATISFIED = 'query-not-satisfied', 'The hint "query" does not hold.'
    WRONG_NETWORK = 'wrong-network', 'The address of the host is in another network.'

    IMAGE_NOT_SUPPORTED = (
        'image-not-supported',
        'No supported instance type has what the image needs.',
    )
    HYPERVISOR_VERSION_DIFFERS = (
        'hypervisor-version-differs',
        'The image needs another version of the hypervisor.',
    )
    ADDRESS_TOO_NARROW = (
        'address-too-narrow',
        'The image needs wider physical addresses.',
    )
    IMAGE_PROPERTY_DIFFERS = (
        'image-property-differs',
        'The aggregates of the host are for images with another property.',
    )

    EXTRA_SPEC_MISSING = (
        'extra-spec-missing',
        'No aggregate of the host has the key of an extra spec.',
    )
    EXTRA_SPEC_DIFFERS = (
        'extra-spec-differs',
        'The aggregates of the host have another value of an extra spec.',
    )
    PROJECT_NOT_ALLOWED = (
        'project-not-allowed',
        'The aggregates of the host are for other projects.',
    )
    FLAVOR_NOT_ALLOWED = (
        'flavor-not-allowed',
        'The aggregates of the host are for other flavors.',
    )
    OTHER_FLAVOR_PRESENT = (
        'other-flavor-present',
        'An instance of another flavor is on the host.',
    )
    HOST_ISOLATED = (
        'host-isolated',
        'The host is kept for isolated images, and the image is not one.',
    )
    HOST_NOT_ISOLATED = (
        'host-not-isolated',
        'The image is isolated, and the host is not kept for such.',
    )
    WRONG_POOL = 'wrong-pool', 'The host is in another dedicated pool, or in none.'

    GROUP_LIMIT = 'group-limit', 'Enough members of the server group are here.'
    NOT_IN_GROUP = 'not-in-group', 'The server group is on other hosts.'
    INSTANCE_PRESENT = 'instance-present', 'An instance to keep away from is here.'
    INSTANCE_ABSENT = 'instance-absent', 'No instance to be near to is here.'

    TOO_MANY_INSTANCES = 'too-many-instances', 'The host runs as many as it may.'
    TOO_MANY_IO_OPS = 'too-many-io-ops', 'As many heavy tasks are under way as may be.'
    NOT_ENOUGH_RAM = 'not-enough-ram', 'The memory that may be used is too small.'
    NOT_ENOUGH_CPUS = 'not-enough-cpus', 'The CPUs that may be used are too few.'
    NOT_ENOUGH_DISK = 'not-enough-disk', 'The disk that may be used is too small.'
    RAM_DIFFERS = 'ram-differs', 'The free memory is not exactly what is asked for.'
    CPUS_DIFFER = 'cpus-differ', 'The free CPUs are not exactly what is asked for.'
    DISK_DIFFERS = 'disk-differs', 'The free disk is not exactly what is asked for.'

    LOCAL_DISK_MISSING = 'local-disk-missing', 'The host has no disks for instances.'
    LOCAL_DISK_DIFFERS = 'local-disk-differs', 'The local disks are of another type.'
    EXTRA_SPEC_INVALID = 'extra-spec-invalid', 'An extra spec cannot be understood.'
    VGPU_MISSING = 'vgpu-missing', 'No candidate has the virtual GPUs asked for.'
    VGPU_DIFFERS = 'vgpu-differs', 'The virtual GPUs are of another type.'
    PCI_DEVICES_MISSING = 'pci-devices-missing', 'The PCI devices are not free here.'
    PCI_WRONG_NODE = 'pci-wrong-node', 'The PCI devices are on other NUMA nodes.'
    PCI_KIND_DIFFERS = (
        'pci-kind-differs',
        'The free devices are physical functions, vDPA or remote-managed, which must '
        'be asked for.',
    )
    PCI_WRONG_PROVIDER = (
        'pci-wrong-provider',
        'The PCI devices are not those of the allocation candidate.',
    )
    PCI_PROVIDER_AMBIGUOUS = (
        'pci-provider-ambiguous',
        'Two PCI pools of the host have one resource provider.',
    )

    CANDIDATE_MISSING = 'candidate-missing', 'No allocation candidate is left.'
    NUMA_MISSING = 'numa-missing', 'The host reports no NUMA cells.'
    THREADS_MISSING = 'threads-missing', 'No core of the host has two threads.'
    RATIO_UNKNOWN = 'ratio-unknown', 'An allocation ratio of the host is unknown.'
    NUMA_DOES_NOT_FIT = 'numa-does-not-fit', 'No NUMA nodes can hold the instance.'
    NODES_MISSING = 'nodes-missing', 'The host has fewer NUMA nodes than the instance.'
    NODES_CONTENDED = (
        'nodes-contended',
        'Each NUMA node of the instance fits somewhere, but not all at once.',
    )
    NODE_DATA_MISSING = (
        'node-data-missing',
        'The compute does not report what is needed to know, or cannot be understood.',
    )
    PAGE_SIZE_MISSING = 'page-size-missing', 'No memory pages of the size asked for.'
    NOT_ENOUGH_PAGES = 'not-enough-pages', 'The free memory pages are too few.'
    NOT_ENOUGH_NODE_MEMORY = (
        'not-enough-node-memory',
        'The memory of each NUMA node is too small.',
    )
    NOT_ENOUGH_NODE_CPUS = (
        'not-enough-node-cpus',
        'The shared CPUs of each NUMA node are too few.',
    )
    NOT_ENOUGH_DEDICATED_CPUS = (
        'not-enough-dedicated-cpus',
        'The CPUs of each NUMA node that may be pinned are too few.',
    )
    THREADS_DO_NOT_FIT = (
        'threads-do-not-fit',
        'The free CPUs are not on such cores as the thread policy asks for.',
    )
    NETWORKS_ELSEWHERE = (
        'networks-elsewhere',
        'The NUMA nodes that can hold the instance are far from its networks.',
    )


SHARE = re.compile(r'\b(\d+) of (\d+) ')


class Reason(NamedTuple):
    """Why one host was rejected; as text, the words for people.

    Texts say "2 of 3 pages" of what a host has and what is asked for.
    """

    code: Code
    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def share(self) -> float:
        """How much of what is asked for the host has, as far as the text says so."""
        found = SHARE.search(self.text)
        return int(found[1]) / max(1, int(found[2])) if found else 0.0


REJECTED = Reason(Code.REJECTED, 'rejected')

# SPDX-License-Identifier: Apache-2.0
"""Free PCI devices made by chance, requests for some, and candidates for both."""

import uuid

from tests.differential.primitives import primitive

PRODUCTS = (*[('8086', '1520')] * 4, ('10de', '1db4'), ('15b3', 'A2d6'))
NETWORKS = ('net1', 'net1', 'Net1', 'net2', None)
POLICIES = (None, 'legacy', 'preferred', 'required', 'required', 'socket', 'socket')
KEYS = ('vendor_id', 'product_id')
TRUTHS = ('true', 'false')
COMPUTE_NODE = str(uuid.UUID(int=1))
INSTANCE = str(uuid.UUID(int=2))


class Devices:
    """Makes the devices of a host whose nodes have these ids."""

    def __init__(self, rng, ids):
        self.rng = rng
        self.pick = rng.choice
        self.ids = ids
        self.tracked = self.sometimes(0.35)  # by placement
        self.likely = {}  # the provider of what a request asks for

    def sometimes(self, chance):
        return self.rng.random() < chance

    def made(self, chance):
        """Return pools, requests with this chance, and candidates."""
        pools = [self.pool(n) for n in range(self.pick((0, 1, 2, 3, 3, 4, 5, 6)))]
        requests = []
        if self.sometimes(chance):
            count = self.pick((1, 1, 1, 2, 3))
            requests = [self.request(n, pools) for n in range(count)]
        data = [
            primitive('InstancePCIRequest', '1.4', **request) for request in requests
        ]
        return {
            'pools': self.pool_list(pools),
            'requests': primitive(
                'InstancePCIRequests', '1.1', instance_uuid=INSTANCE, requests=data
            )
            if requests or self.sometimes(0.1)
            else None,
            'candidates': self.candidates(requests, pools),
        }

    def pool_list(self, pools):
        if not pools and self.sometimes(0.5):
            return None
        made = [primitive('PciDevicePool', '1.1', **pool) for pool in pools]
        return primitive('PciDevicePoolList', '1.1', objects=made)

    def pool(self, number):
        vendor, product = self.pick(PRODUCTS)
        kind = self.pick(('type-VF',) * 5 + ('type-PF', 'vdpa', None))
        tags = {}
        if kind or self.sometimes(0.5):
            tags = {'dev_type': kind or 'type-PCI', 'address': f'0000:{number:02}:00.0'}
        if self.sometimes(0.3):
            tags['physical_network'] = self.pick(NETWORKS)
        if self.sometimes(0.2):
            tags['trusted'] = self.pick(TRUTHS)
        if self.sometimes(0.25):
            tags['remote_managed'] = self.pick(
                (*TRUTHS, 'false', 'false', 'True', ' on ')
            )
        if self.sometimes(0.2):
            tags['live_migratable'] = self.pick(TRUTHS)
        if self.tracked and self.sometimes(0.9):
            # Now and then one of another pool's.
            number = self.rng.randint(0, 6) if self.sometimes(0.05) else number
            tags['rp_uuid'] = name_of(100 + number)
        return {
            'vendor_id': vendor,
            'product_id': product,
            'numa_node': self.pick((*self.ids, *self.ids, None, 5)),
            'tags': tags,
            'count': self.pick((1, 2, 2, 4, 4, 8)),
        }

    def request(self, number, pools):
        port = self.sometimes(0.3)
        alternatives = 1 if port or self.tracked else self.pick((1, 1, 1, 2))
        ask = self.port if port else self.alias
        wanted = [self.wanted(pools) for _ in range(alternatives)]
        self.likely[name_of(1000 + number)] = wanted[0]['tags'].get('rp_uuid')
        made = {
            'count': 1 if port else self.pick((1, 1, 1, 1, 2, 3)),
            'spec': [ask(pool) for pool in wanted],
            'alias_name': None if port else f'a{number}',
            'is_new': False,
            'request_id': name_of(1000 + number),
            'requester_id': None,
            'numa_policy': self.pick(POLICIES),
        }
        if not port and self.tracked and self.sometimes(0.15):
            made['spec'][0]['rp_uuids'] = name_of(100)
        return made

    def wanted(self, pools):
        """Return a pool to ask for, most often one that is there."""
        return self.pick(pools) if pools and self.sometimes(0.97) else self.pool(9)

    def alias(self, pool):
        found = {name: pool[name] for name in KEYS}
        kind = pool['tags'].get('dev_type')
        if kind and self.sometimes(0.9):
            found['dev_type'] = kind
        if self.sometimes(0.2):
            found['live_migratable'] = pool['tags'].get('live_migratable', 'true')
        if self.tracked and self.sometimes(0.3):
            found.update(resource_class='CUSTOM_X', traits='CUSTOM_Y')
        if 'remote_managed' in pool['tags'] and self.sometimes(0.7):
            found['remote_managed'] = pool['tags']['remote_managed']
        return found

    def port(self, pool):
        tags = pool['tags']
        found = {'physical_network': tags.get('physical_network')}
        remote = tags.get('remote_managed', 'false') in ('true', 'True', ' on ')
        if 'remote_managed' in tags:
            found['remote_managed'] = str(remote)
        if tags.get('dev_type') in ('type-PF', 'vdpa') and self.sometimes(0.9):
            found['dev_type'] = tags['dev_type']
        if self.sometimes(0.1):
            found['trusted'] = self.pick(('True', 'False'))
        return found

    def candidates(self, requests, pools):
        count = self.pick((1, 1, 1, 2, 3))
        groups = {
            f'{request["request_id"]}-{number}': self.likely[request['request_id']]
            for request in requests
            if self.tracked and request['alias_name']
            for number in range(request['count'])
        }
        if not groups and self.sometimes(0.1):
            return [{'mappings': {}}] * count
        return [{'mappings': self.mappings(groups, pools)} for _ in range(count)]

    def mappings(self, groups, pools):
        """Return the provider of each group, most often a likely one."""
        known = [pool['tags'].get('rp_uuid') for pool in pools]
        known = [provider for provider in known if provider] or [name_of(150)]
        wrong = self.sometimes(0.3)
        found = {'': [COMPUTE_NODE]}
        for group, likely in groups.items():
            provider = self.pick(known) if wrong or likely is None else likely
            found[group] = [provider]
        return found


def name_of(number):
    """Return a uuid for something that has a number."""
    return str(uuid.UUID(int=number))

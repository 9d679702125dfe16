# SPDX-License-Identifier: Apache-2.0
"""Decide on clouds with our own filters, weighers and pipeline."""

import contextlib
import ipaddress
import random

import stevedore
from oslo_config import cfg

from novasched import errors
from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta
from novasched.objects.request_spec import CellMapping, Destination
from novasched.process import opts
from novasched.releases import NEWEST
from novasched.scheduler import pipeline
from novasched.scheduler.hosts import consume
from tests.support.clouds import factories


def _classes(namespace):
    return {e.name: e.plugin for e in stevedore.ExtensionManager(namespace)}


FILTERS = _classes('novasched.scheduler.filters')
WEIGHERS = _classes('novasched.scheduler.weighers')

# What the request of a golden case need not say.
UNSAID = {
    'flavor_name': 'small',
    'project_id': 'project',
    **dict.fromkeys(('image_id', 'destination')),
    **dict.fromkeys(('ignore_hosts', 'force_hosts', 'force_nodes')),
}


def _conf():
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], project='novasched', default_config_files=[])
    return conf


CONF = _conf()


def answer(cloud, release=NEWEST):
    """Return what each part makes of a cloud, and all of them together."""
    try:
        hosts, request = hosts_of(cloud), request_of(cloud)
    except errors.InvalidRequest as problem:
        return {'refused': str(problem)}
    with _options(cloud['options']) as conf:
        return {
            'filters': {
                name: _passes(_filter(name, conf, release), hosts, request)
                for name in cloud['all_filters']
            },
            'weighers': {
                name: _weighed(WEIGHERS[name].from_conf(conf), hosts, request)
                for name in cloud['all_weighers']
            },
            'decisions': _decisions(cloud, conf, hosts, request, release),
        }


@contextlib.contextmanager
def _options(options):
    for group, values in options.items():
        for name, value in values.items():
            CONF.set_override(name, value, group)
    try:
        yield CONF
    finally:
        for group, values in options.items():
            for name in values:
                CONF.clear_override(name, group)


def hosts_of(cloud):
    """Return the table of the hosts of a cloud."""
    hosts = [{**cloud['every_host'], **one} for one in cloud['hosts']]
    columns = {name: [one[name] for one in hosts] for name in hosts[0]}
    columns['instances'] = [dict.fromkeys(uuids) for uuids in columns['instances']]
    columns['aggregates'] = [
        tuple(factories.aggregate(n, **metadata) for n, metadata in enumerate(many))
        for many in columns['aggregates']
    ]
    columns['host_ip'] = [_address(one.get('host_ip')) for one in hosts]
    columns['service'] = [
        {'host': one['host'], 'disabled': one['service_disabled']} for one in hosts
    ]
    columns['supported_instances'] = [
        # As the cluster view reads a null of a host that reported.
        [] if given is None and one['uuid'] else given
        for one in hosts
        for given in [one['supported_instances']]
    ]
    columns['hypervisor_hostname'] = [
        one['nodename'] if one.get('uuid', '') is not None else None for one in hosts
    ]
    return factories.hosts(**columns)


def _address(text):
    return None if text is None else ipaddress.ip_address(text)


def request_of(cloud):
    """Return the request of a cloud, for its first instance."""
    asked = {**UNSAID, **cloud['request']}
    request = factories.request(
        instance_uuid=cloud['instances'][0],
        instance_group=_group(asked['group']),
        requested_destination=_destination(asked['destination']),
        scheduler_hints=asked.get('scheduler_hints'),
        **{
            name: asked[name]
            for name in ('project_id', 'ignore_hosts', 'force_hosts', 'force_nodes')
        },
    )
    return request.replaced(flavor=_flavor(asked), image=_image(asked))


def _flavor(asked):
    names = ('vcpus', 'memory_mb', 'root_gb', 'ephemeral_gb', 'swap')
    values = {name: asked[name] for name in names}
    if asked['extra_specs'] is not None:
        values['extra_specs'] = asked['extra_specs']
    return Flavor(id=1, name=asked['flavor_name'], flavorid='1', **values)


def _image(asked):
    if asked['image'] is None:
        return None
    given = {'properties': asked['image']}
    if asked['image_id'] is not None:
        given['id'] = asked['image_id']
    return ImageMeta.from_dict(given)


def _group(given):
    if given is None:
        return None
    made = factories.group(
        given['policy'], given['members'], given['hosts'], **given['rules']
    )
    if not given.get('has_policies', True):
        del made._obj_policies
    return made


def _destination(given):
    if given is None:
        return None
    values = {'allow_cross_cell_move': given['allow_cross_cell_move']}
    if 'host' in given:
        values.update(host=given['host'], node=given['node'])
    if given['cell'] is not None:
        values['cell'] = CellMapping(uuid=given['cell'])
    return Destination(**values)


def _filter(name, conf, release):
    return FILTERS[name].from_conf(conf).of_release(release)


def _passes(filter_, hosts, request):
    """Return whether each host passes, or the name of what the filter raised.

    The hosts go through the filter together; one by one where it raises.
    """
    try:
        survivors, _ = pipeline.run_filters([filter_], hosts, request)
    except errors.NovaschedError:
        return [
            _passes_alone(filter_, host.as_table(), request) for host in hosts.states()
        ]
    left = set(survivors.rows.tolist())
    return [row in left for row in hosts.rows.tolist()]


def _passes_alone(filter_, host, request):
    try:
        survivors, _ = pipeline.run_filters([filter_], host, request)
    except errors.NovaschedError as problem:
        return _name(problem)
    return bool(len(survivors))


def _name(problem):
    return type(problem.__cause__ or problem).__name__


def _weighed(weigher, hosts, request):
    """Return what a weigher makes of the hosts, by stage, or what it raised."""
    try:
        weighed = pipeline.weigh([weigher], hosts, request)
    except errors.NovaschedError as problem:
        return {'raises': _name(problem)}
    found = {'weights': weighed.totals.tolist()}
    for weighing in weighed.weighings:
        found.update(
            raw=weighing.raw.tolist(),
            normalized=weighing.normalized.tolist(),
            multipliers=weighing.multipliers.tolist(),
        )
    return found


def _decisions(cloud, conf, hosts, request, release):
    """Decide on each instance, and give it to the best host."""
    profile = pipeline.Profile(
        [_filter(name, conf, release) for name in cloud['filters']],
        [WEIGHERS[name].from_conf(conf) for name in cloud['weighers']],
    )
    made = []
    for index, uuid in enumerate(cloud['instances']):
        request = request.for_instance(uuid)
        try:
            decided = pipeline.decide(profile, hosts, request, random.Random(1), index)
        except errors.NovaschedError as problem:
            made.append({'raises': _name(problem)})
            break
        totals = decided.totals.tolist()
        names = decided.ranked.nodename.tolist()
        decision = {
            'steps': decided.funnel(),
            'notes': list(decided.notes),
            'ranked': list(zip(names, totals, strict=True)),
        }
        made.append(decision)
        if not names or any(total != total for total in totals):
            break
        row = int(decided.ranked.rows[0])
        hosts = consume(decided.ranked, row, request)
        best = hosts.state(0)
        decision['taken'] = f'{best!r} vcpus: {best.vcpus_used}'
        request = _with_group_on(request, best.host)
    return made


def _with_group_on(request, host):
    group = request.instance_group
    if group is None:
        return request
    return request.replaced(instance_group=group.replaced(hosts=[*group.hosts, host]))

# SPDX-License-Identifier: Apache-2.0
"""Names to filters and weighers."""

import inspect
import re

import pytest
from oslo_config import cfg

from novasched import errors, plugins
from novasched.process import opts
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.weighers import BaseHostWeigher, Weigher
from tests.support.clouds import factories
from tests.support.tables.cases import cases

HERE = __name__
ALL = 'nova.scheduler.filters.all_filters'
DEFAULTS = [
    'ComputeFilter',
    'ComputeCapabilitiesFilter',
    'ImagePropertiesFilter',
    'ServerGroupAntiAffinityFilter',
    'ServerGroupAffinityFilter',
]


class OddHosts(BaseHostFilter):
    """A filter of a site."""

    def host_passes(self, host_state, spec_obj):
        return host_state.host.endswith(('1', '3'))


class ComputeFilter(OddHosts):
    """A filter that takes the name of a built-in."""


class ForNova:
    """A filter that knows nothing of our classes."""

    RUN_ON_REBUILD = True

    def host_passes(self, host_state, spec_obj):
        return host_state.host == 'h2'


class Heavy(BaseHostWeigher):
    """A weigher of a site."""

    def _weigh_object(self, host_state, spec_obj):
        return host_state.free_ram_mb


class HeavyForNova:
    """A weigher that knows nothing of our classes."""

    def _weigh_object(self, host_state, spec_obj):
        return -host_state.free_ram_mb


class ByColumn(Weigher):
    """A weigher of a site that weighs all hosts at once."""

    def weigh(self, hosts, request):
        return hosts.free_ram_mb


class NoPlugin:
    """Neither filter nor weigher."""


class _Hidden(OddHosts):
    """Not public."""


def both_filters():
    """Give what a site has."""
    return [OddHosts, ForNova]


def all_and_mine():
    """Give what is installed, and more, as sites do."""
    from nova.scheduler import filters

    return [*filters.all_filters(), OddHosts]


def no_filters():
    """Fail."""
    raise RuntimeError('no filters today')


def with_others():
    """Give a filter and its helper."""
    return [NoPlugin, OddHosts]


class Late(OddHosts):
    """A filter that imports what it needs when it needs it."""

    def host_passes(self, host_state, spec_obj):
        from nova.scheduler.filters import utils

        return not utils.aggregate_values_from_key(host_state, 'x')


class Mandatory(OddHosts):
    """A filter that cannot be made without more."""

    def __init__(self, wanted):
        self.wanted = wanted


class MandatoryWeigher(Heavy):
    """A weigher that reads an option that nobody registered."""

    @classmethod
    def from_conf(cls, conf):
        raise KeyError(f'no option\nfor {cls.__name__}')


NOT_CALLABLE = 3


@pytest.fixture
def conf(tmp_path):
    """Make a configuration from the text of a file."""

    def make(text=''):
        path = tmp_path / 'nova.conf'
        path.write_text(text)
        made = cfg.ConfigOpts()
        opts.register(made)
        made(['--config-file', str(path)], project='nova')
        return made

    return make


def names(things):
    return [thing.name for thing in things]


def enabled(*names, of):
    """The text of options that make things of these paths known, and run filters."""
    known = ''.join(f'available_filters = {path}\n' for path in of)
    return f'{known}enabled_filters = {", ".join(names)}'


def filters(conf, text):
    return plugins.profile_from_conf(conf(f'[filter_scheduler]\n{text}')).filters


def weighers(conf, text):
    return plugins.profile_from_conf(conf(f'[filter_scheduler]\n{text}')).weighers


def test_defaults_are_novas(conf):
    profile = plugins.profile_from_conf(conf())
    assert names(profile.filters) == DEFAULTS
    assert {'CPUWeigher', 'RAMWeigher', 'DiskWeigher'} <= set(names(profile.weighers))
    assert (profile.host_subset_size, profile.shuffle_best) == (1, False)


def test_enabled_filters_keep_their_order_and_a_double_is_one_object(conf):
    found = filters(
        conf, 'enabled_filters = NumInstancesFilter, ComputeFilter,NumInstancesFilter ,'
    )
    assert names(found) == ['NumInstancesFilter', 'ComputeFilter', 'NumInstancesFilter']
    assert found[0] is found[2]


def test_unknown_filters_are_named_together(conf):
    with pytest.raises(errors.FilterNotFound) as raised:
        filters(conf, 'enabled_filters = Nope, ComputeFilter, Zip')
    assert str(raised.value) == 'Scheduler Host Filter Nope, Zip could not be found.'


def test_a_value_replaces_the_filters_that_are_installed(conf):
    text = enabled('OddHosts', 'ComputeFilter', of=[f'{HERE}.OddHosts'])
    with pytest.raises(errors.FilterNotFound):
        filters(conf, text)


def test_a_site_adds_its_own(conf):
    wanted = ['OddHosts', 'ComputeFilter', 'ForNova']
    found = filters(conf, enabled(*wanted, of=[ALL, f'{HERE}.both_filters']))
    assert names(found) == wanted
    assert isinstance(found[0].plugin, OddHosts)


def test_a_function_may_ask_for_all_that_are_installed(conf):
    wanted = ['OddHosts', 'ComputeFilter']
    assert names(filters(conf, enabled(*wanted, of=[f'{HERE}.all_and_mine']))) == wanted


def test_of_two_with_one_name_the_later_wins(conf):
    text = enabled('ComputeFilter', of=[ALL, f'{HERE}.ComputeFilter'])
    assert isinstance(filters(conf, text)[0].plugin, ComputeFilter)


def test_the_class_paths_of_nova_lead_to_ours(conf):
    path = 'nova.scheduler.filters.compute_filter.ComputeFilter'
    (found,) = filters(conf, enabled('ComputeFilter', of=[path]))
    assert type(found).__module__ == 'novasched.scheduler.filters.compute'


@pytest.mark.parametrize('kind', [plugins.FILTERS, plugins.WEIGHERS])
def test_every_path_of_nova_leads_to_the_built_in(conf, kind):
    plugins.install_nova_modules(conf())
    for name, cls in plugins._installed(kind).items():
        path = re.search(r'Nova[^:]*:\s+scheduler/(\S+)[.]py', inspect.getdoc(cls))
        if path:
            dotted = f'nova.scheduler.{path[1]}.{name}'.replace('/', '.')
            assert plugins._by_name([dotted], kind) == {name: cls}


def test_a_class_of_a_site_in_a_package_of_nova_is_not_mistaken_for_ours(conf):
    path = 'nova.scheduler.filters.my_site.ComputeFilter'
    text = 'novasched lends plugins no nova.scheduler.filters.my_site'
    with pytest.raises(errors.ClassNotFound, match=text):
        filters(conf, enabled('ComputeFilter', of=[path]))


def test_a_filter_may_import_nova_when_it_is_asked(conf):
    (found,) = filters(conf, enabled('Late', of=[f'{HERE}.Late']))
    passed = found.apply(factories.hosts(2), factories.request())
    assert passed.host.tolist() == ['h1', 'h2']


def test_filters_for_bare_metal_run_where_they_are_asked_for(conf):
    found = filters(
        conf,
        'use_baremetal_filters = true\n'
        'baremetal_enabled_filters = ComputeFilter, RetryFilter',
    )
    assert names(found) == ['ComputeFilter', 'RetryFilter']


def test_a_weigher_without_a_module_is_no_path(conf):
    with pytest.raises(errors.ClassNotFound, match='it is no dotted path'):
        weighers(conf, 'weight_classes = RAMWeigher')


def test_other_values_of_a_filter_function_are_left_out(conf):
    text = f'available_filters = {HERE}.with_others\nenabled_filters = '
    assert names(filters(conf, f'{text}OddHosts')) == ['OddHosts']
    with pytest.raises(errors.FilterNotFound, match='NoPlugin'):
        filters(conf, f'{text}NoPlugin')


@cases(
    ('text', 'said'),
    (
        'a filter',
        f'available_filters = {HERE}.Mandatory\nenabled_filters = Mandatory',
        '[filter_scheduler] enabled_filters: Mandatory: TypeError(',
    ),
    (
        'a weigher',
        f'weight_classes = {HERE}.MandatoryWeigher',
        '[filter_scheduler] weight_classes: MandatoryWeigher: KeyError(',
    ),
)
def test_a_class_that_cannot_be_made_is_one_line(conf, text, said):
    with pytest.raises(errors.OptionError) as raised:
        plugins.profile_from_conf(conf(f'[filter_scheduler]\n{text}'))
    assert str(raised.value).startswith(said)
    assert '\n' not in str(raised.value)


def test_a_filter_written_for_nova_is_lent_what_it_lacks(conf):
    (found,) = filters(conf, enabled('ForNova', of=[f'{HERE}.ForNova']))
    survivors = found.apply(factories.hosts(3), factories.request())
    assert survivors.host.tolist() == ['h2']
    assert found.RUN_ON_REBUILD is True
    assert found.run_filter_for_index(3)


@cases(
    ('path', 'problem'),
    ('no module', 'no_such_module.Filter', 'No module named'),
    ('no attribute', f'{HERE}.Missing', 'has no attribute'),
    ('not a class', f'{HERE}.NOT_CALLABLE', 'correct type'),
    ('not a filter', f'{HERE}.NoPlugin', 'correct type'),
    ('not public', f'{HERE}._Hidden', 'correct type'),
    ("nova's", 'nova.scheduler.filters.x.Riddle', 'lends plugins no'),
    ('a function that raises', f'{HERE}.no_filters', 'RuntimeError'),
)
def test_path_that_is_no_class_is_named(conf, path, problem):
    with pytest.raises(errors.ClassNotFound, match=problem) as raised:
        filters(conf, f'available_filters = {path}')
    assert str(raised.value).startswith(f'Class {path} could not be found: ')


def test_weighers_are_those_that_are_named_in_order(conf):
    ram = 'nova.scheduler.weights.ram.RAMWeigher'
    cpu = 'nova.scheduler.weights.cpu.CPUWeigher'
    own = f'{HERE}.Heavy, {HERE}.ByColumn'
    found = weighers(conf, f'weight_classes = {ram}, {own}, {cpu}')
    assert names(found) == ['RAMWeigher', 'Heavy', 'ByColumn', 'CPUWeigher']


def test_a_weigher_written_for_nova_is_lent_what_it_lacks(conf):
    (found,) = weighers(conf, f'weight_classes = {HERE}.HeavyForNova')
    table = factories.hosts(free_ram_mb=[1, 2])
    assert found.weigh(table, factories.request()).tolist() == [-1, -2]


def test_the_old_names_of_the_options_work(conf):
    profile = plugins.profile_from_conf(
        conf(
            '[DEFAULT]\n'
            'scheduler_default_filters = OddHosts\n'
            f'scheduler_available_filters = {HERE}.OddHosts\n'
            f'scheduler_weight_classes = {HERE}.Heavy\n'
            'scheduler_host_subset_size = 3\n'
        )
    )
    assert names(profile.filters) == ['OddHosts']
    assert names(profile.weighers) == ['Heavy']
    assert profile.host_subset_size == 3

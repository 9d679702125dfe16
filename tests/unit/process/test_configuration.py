# SPDX-License-Identifier: Apache-2.0
"""What is wrong with configuration files is found, and only that."""

import pytest
from oslo_config import cfg

from novasched import errors
from novasched.process import configuration, opts
from tests.support.tables.cases import cases


@pytest.fixture
def write(tmp_path):
    """Write a configuration file; return its path."""

    def run(text, name='nova.conf'):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return run


def read(*argv):
    conf = cfg.ConfigOpts()
    configuration.read(conf, argv, 'nova-scheduler')
    return conf


@pytest.fixture(scope='module')
def known():
    return opts.known()


@cases(
    ('text', 'warnings'),
    (
        'an option of a group of ours',
        '[scheduler]\nworkerz = 1\n',
        ['[scheduler] workerz is no option and does nothing. Did you mean workers?'],
    ),
    (
        'a group',
        '[filter_schedular]\nhost_subset_size = 2\n',
        [
            '[filter_schedular] is no group of options and does nothing. '
            'Did you mean [filter_scheduler]?'
        ],
    ),
    (
        'an option of an authentication',
        '[placement]\nusername = nova\npasword = p\nuser_domain_name = d\n',
        ['[placement] pasword is no option and does nothing. Did you mean password?'],
    ),
    (
        'a hyphen',
        '[scheduler]\nmax-attempts = 2\n',
        [
            '[scheduler] max-attempts is no option and does nothing. '
            'Did you mean max_attempts?'
        ],
    ),
    ('a group in capitals', '[Scheduler]\nworkers = 1\n', []),
    ('the name of old', '[DEFAULT]\nscheduler_max_attempts = 1\n', []),
    ('nothing like ours', '[scheduler]\nsomething_else = 1\n', []),
    (
        'groups of other services',
        '[libvirt]\nvirt_type = kvm\n[vnc]\nenabled = true\n[api]\n'
        'auth_strategy = noauth2\n[keystone_authtoken]\nusername = nova\n',
        [],
    ),
    (
        'a group of nova',
        '[libvrt]\nvirt_type = kvm\n',
        ['[libvrt] is no group of options and does nothing. Did you mean [libvirt]?'],
    ),
    (
        'a group of no program',
        '[os_region_name]\nregion_name = here\nauth_type = password\n',
        [
            '[os_region_name] is no group of options of nova. Nothing reads auth_type, '
            'region_name there, unless a plugin does.'
        ],
    ),
    ('a group without options', '[cloudpipe]\n', []),
    ('a group of removed options', '[sql]\nconnection = sqlite://\n', []),
    (
        'groups that are named after something',
        '[neutron_physnet_Blue]\nnuma_nodes = 0\n[neutron_tunnel]\nnuma_nodes = 0\n'
        '[mdev_nvidia-35]\ndevice_addresses = a\n[profiler_otlp]\nservice_name = n\n',
        [],
    ),
    ('other options', '[DEFAULT]\nmy_ip = ::1\ndebug = 1\n', []),
    ('an old library', '[oslo_messaging_amqp]\nssl = 1\n', []),
)
def test_misspelt_options_and_groups_are_found(write, known, text, warnings):
    conf = read('--config-file', write(text))
    assert list(configuration.misspelt(conf, known)) == warnings


def test_group_that_a_plugin_has_registered_is_read(write, known):
    conf = read('--config-file', write('[site]\nrack = 1\n'))
    conf.register_opts([cfg.StrOpt('rack')], 'site')
    assert list(configuration.misspelt(conf, known)) == []


def test_directories_are_looked_into(write, known, tmp_path):
    write('[scheduler]\nworkerz = 1\n', 'conf.d/10.conf')
    write('[schedulr]\n', 'conf.d/ignored')
    conf = read(f'--config-dir={tmp_path / "conf.d"}')
    assert len(list(configuration.misspelt(conf, known))) == 1


@cases(
    'option, name, says',
    ('no file', '--config-file', 'none', 'No such file'),
    ('no text', '--config-file', 'latin', 'it is no UTF-8 text'),
    ('no directory', '--config-dir', 'none', 'No such file'),
    ('no file in one', '--config-dir', 'conf.d', 'Is a directory'),
)
def test_unreadable_file_is_named(write, tmp_path, option, name, says):
    write(b'[DEFAULT]\nhost = \xff\n', 'latin')
    (tmp_path / 'conf.d' / 'x.conf').mkdir(parents=True)
    with pytest.raises(errors.OptionError) as raised:
        read(option, str(tmp_path / name))
    assert str(raised.value).startswith(f'{option}: {tmp_path / name}')
    assert says in str(raised.value)


def test_the_arguments_that_name_files():
    argv = ['--debug', '--config-file', 'a', '--config-dir=b', '--config-file=c']
    assert configuration.arguments(argv) == [
        '--config-file=a',
        '--config-file=c',
        '--config-dir=b',
    ]


def test_a_copy_has_the_files_and_what_was_set(write):
    conf = cfg.ConfigOpts()
    opts.register(conf)
    path = write('[DEFAULT]\nstate_path = /kept\n[novasched]\ncheck_interval = 5\n')
    configuration.read(conf, [f'--config-file={path}'], 'nova-scheduler')
    conf.set_override('connection', 'sqlite:///a$$b', 'database')
    conf.set_override('enabled_filters', ['ComputeFilter'], 'filter_scheduler')
    made = configuration.copied(conf, dict(opts.list_opts()))
    assert (made.state_path, made.novasched.check_interval) == ('/kept', 5.0)
    assert made.database.connection == conf.database.connection == 'sqlite:///a$b'
    made.set_override('enabled_filters', [], 'filter_scheduler')
    assert conf.filter_scheduler.enabled_filters == ['ComputeFilter']


def test_a_copy_may_know_other_options():
    conf = cfg.ConfigOpts()
    conf.register_opt(cfg.StrOpt('host', help='one'))
    conf.set_override('host', 'here')
    other = cfg.StrOpt('host', help='another')
    with pytest.raises(cfg.DuplicateOptError):
        conf.register_opt(other)
    known = {'DEFAULT': [other], 'more': [cfg.IntOpt('number', default=3)]}
    made = configuration.copied(conf, known)
    assert (made.host, made.more.number) == ('here', 3)


CONNECTION = cfg.StrOpt('connection', secret=True)
PASSWORD = cfg.StrOpt('admin_password', secret=True)


@cases(
    'line, option',
    ('a URL', 'connection = a://u:p$secret@h/', 'connection'),
    ('in braces', 'connection = a://u:p${secret}@h/', 'connection'),
    ('a group', 'connection = a://u:$x.secret@h/', 'connection'),
    ('a password', 'admin_password = p$secret', 'admin_password'),
)
def test_text_behind_a_dollar_is_not_shown(write, line, option):
    conf = cfg.ConfigOpts()
    conf.register_opts([CONNECTION, PASSWORD], 'database')
    argv = [f'--config-file={write(f"[database]{chr(10)}{line}{chr(10)}")}']
    with pytest.raises(errors.OptionError) as wrong:
        configuration.read(conf, argv, 'nova-scheduler')
    assert wrong.value.option == f'[database] {option}'
    assert 'secret' not in str(wrong.value)
    assert wrong.value.__suppress_context__


def test_a_dollar_may_refer_to_an_option_or_be_one(write):
    conf = cfg.ConfigOpts()
    conf.register_opts([CONNECTION, PASSWORD], 'database')
    text = '[database]\nconnection = a://u:$$x@$admin_password/\nadmin_password = p\n'
    configuration.read(conf, [f'--config-file={write(text)}'], 'nova-scheduler')
    assert conf.database.connection == 'a://u:$x@p/'


def test_a_dollar_in_what_others_read_is_theirs(write):
    text = '[other]\nconnection = a://u:p$secret@h/\n'
    assert read(f'--config-file={write(text)}')

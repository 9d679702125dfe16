# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site and as manual pages: `tools/docs` builds both."""

import contextlib
import importlib.metadata
import io
import logging
import os
import pathlib
import sys

from docutils import nodes
from docutils.parsers.rst import Directive
from pygments.lexers.special import TextLexer

os.environ['COLUMNS'] = '79'  # the width of what programs print

project = 'novasched'
author = 'novasched developers'
today = ' '  # so that manual pages change with what they say alone
release = version = importlib.metadata.version('novasched')

extensions = [
    'cliff.sphinxext',
    'myst_parser',
    'openstackdocstheme',
    'oslo_config.sphinxext',
    'oslo_policy.sphinxext',
    'stevedore.sphinxext',
]
HAS_HISTORY = (pathlib.Path(__file__).parents[1] / '.git').exists()
if HAS_HISTORY:
    extensions.append('reno.sphinxext')
exclude_patterns = ['man']
templates_path = ['_templates']
highlight_language = 'none'
nitpicky = True

myst_heading_anchors = 4
myst_ref_domains = ['std']  # that of oslo.config resolves options only

autoprogram_cliff_application = 'novasched'

html_theme = 'openstackdocs'
html_theme_options = {
    'analytics_tracking_code': '',
    'display_badge': False,
    'root_title': 'novasched',
    'sidebar_mode': 'toctree',
}
html_static_path = ['_static']
html_css_files = ['site.css']
html_copy_source = False
openstackdocs_auto_name = False
openstackdocs_auto_version = False
openstackdocs_pdf_link = False

man_pages = [
    (f'reference/programs/{program}', program, does, [], section)
    for program, does, section in (
        ('novasched', 'ask the scheduler, or watch it at work', 1),
        ('novasched-compute', 'simulated hosts of a test cloud', 8),
        ('novasched-conductor', 'conductor of a test cloud', 8),
        ('novasched-console', 'pages on decisions, hosts and capacity', 8),
        ('novasched-lab', 'commands that drive a test cloud by hand', 1),
        ('novasched-manage', 'make and describe the databases', 8),
        ('novasched-scheduler', 'choose hosts for instances', 8),
        ('novasched-status', 'check a cloud before the scheduler starts', 8),
    )
]


class HelpOf(Directive):
    """What a program prints for ``--help``; its arguments are the command."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        program, *words = self.arguments[0].split()
        (point,) = importlib.metadata.entry_points(
            group='console_scripts', name=program
        )
        root, printed = logging.getLogger(), io.StringIO()
        before = sys.argv, root.level, root.handlers[:]
        sys.argv = [program]
        try:
            with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
                point.load()([*words, '--help'])
        finally:
            sys.argv, root.level, root.handlers[:] = before
        shown = printed.getvalue().partition('\n\nCommands:\n')[0]
        return [nodes.literal_block(text=shown.rstrip())]


class NoNotes(Directive):
    """Takes the place of the release notes, which reno finds by the history of git."""

    has_content = True

    def run(self):
        return [nodes.paragraph(text='The notes are in releasenotes/notes.')]


def setup(app):
    app.add_directive('help-of', HelpOf)
    if not HAS_HISTORY:
        app.add_directive('release-notes', NoNotes)
    for language in ('log', 'usage'):
        app.add_lexer(language, TextLexer)

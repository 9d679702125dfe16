# SPDX-License-Identifier: Apache-2.0
"""The programs, one module each, and their common parts."""

import warnings

from novasched.cmd import ending

# Before anything that takes long to import.
ending.hook_interpreter()

# The libraries load eventlet where it is installed, whether it is used or not; its ten
# lines hide ours, and who chose it knows.
warnings.filterwarnings('ignore', r'\s*Eventlet is deprecated')

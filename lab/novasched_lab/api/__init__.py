# SPDX-License-Identifier: Apache-2.0
"""What nova's API does to servers, as far as scheduling needs it."""

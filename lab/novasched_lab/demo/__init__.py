# SPDX-License-Identifier: Apache-2.0
"""A whole cloud of our own programs on real servers, for as long as a demo takes."""

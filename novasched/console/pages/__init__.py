# SPDX-License-Identifier: Apache-2.0
"""What each page shows, made of one answer of the reader: pure functions."""

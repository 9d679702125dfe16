# SPDX-License-Identifier: Apache-2.0
"""Answers as text, for people. Made of the answers alone."""

# SPDX-License-Identifier: Apache-2.0
"""A test cloud for novasched: conductor, computes, local placement and demo.

Never installed with the scheduler, which imports nothing of it.
"""

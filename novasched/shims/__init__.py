# SPDX-License-Identifier: Apache-2.0
"""A conductor and computes of our own, to run, watch and test the whole flow."""

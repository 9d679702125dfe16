# SPDX-License-Identifier: Apache-2.0
"""Life of the process: options, configuration, workers, service, start and stop."""

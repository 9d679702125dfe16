# SPDX-License-Identifier: Apache-2.0
"""What a question reads: sessions, dry runs, requests, a cloud that is changed."""

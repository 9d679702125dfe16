#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# DevStack sources this file with a mode and a phase; settings has the variables.
# shellcheck disable=SC2154  # NOVA_CONF is DevStack's.

function install_novasched {
    python3 -m venv "$NOVASCHED_VENV"
    "$NOVASCHED_VENV/bin/pip" install "${NOVASCHED_DIR}[memcached,mysql,postgres]"
}

function configure_novasched {
    iniset "$NOVASCHED_CONF" healthcheck uri tcp://localhost:9107
    iniset "$NOVASCHED_CONF" novasched metrics_uri tcp://localhost:9108
}

function start_novasched {
    local files="--config-file $NOVA_CONF --config-file $NOVASCHED_CONF"
    run_process novasched "$NOVASCHED_VENV/bin/novasched-scheduler $files"
}

if is_service_enabled novasched; then
    case "$1/${2-}" in
        stack/install) install_novasched ;;
        stack/post-config) configure_novasched ;;
        stack/extra) start_novasched ;;
        unstack/*) stop_process novasched ;;
        clean/*) rm -rf "$NOVASCHED_VENV" "$NOVASCHED_CONF" ;;
    esac
fi

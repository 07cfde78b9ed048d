#!/bin/bash
# The container's first process, as AI Workbench's: works when started as root and as the user, runs the
# image's own entry point and the project's onStart.bash as the user, takes sudo away, then becomes the
# idle command. Apps are started beside it with exec.
set -u

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

as_user() {
    if [ "$(id -u)" -eq 0 ] && [ "${NVWB_UID:-0}" -ne 0 ]; then
        HOME=$(getent passwd "$NVWB_UID" | cut -d: -f6) gosu "$NVWB_UID:$NVWB_GID" "$@"
    else
        "$@"
    fi
}

if [ -n "${NVWB_BASE_ENV_ENTRYPOINT:-}" ]; then
    as_root chmod +x "$NVWB_BASE_ENV_ENTRYPOINT"
    as_user "$NVWB_BASE_ENV_ENTRYPOINT" || exit
fi

if [ -f /project/onStart.bash ]; then
    as_user /bin/bash /project/onStart.bash || {
        code=$?
        echo "onStart.bash ended with exit code $code"
        exit "$code"
    }
fi

as_root rm -f /etc/sudoers.d/workbench

if [ "$(id -u)" -eq 0 ] && [ "${NVWB_UID:-0}" -ne 0 ]; then
    HOME=$(getent passwd "$NVWB_UID" | cut -d: -f6)
    export HOME
    exec gosu "$NVWB_UID:$NVWB_GID" "$@"
fi
exec "$@"

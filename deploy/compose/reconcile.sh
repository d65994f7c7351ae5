#!/bin/sh
# Compares catalogs with Spark again and again, and keeps the last report in the directory `report`.
# Its arguments are those of `concord reconcile`.
set -eu

trap 'exit 0' TERM INT
while :; do
    code=0
    concord reconcile "$@" --report report &
    wait $! || code=$?
    case $code in
        0) ;;
        1) echo "The catalogs differ: see $PWD/report/report.html." >&2 ;;
        *) echo "They could not be compared." >&2 ;;
    esac
    sleep "${RECONCILE_EVERY_SECONDS:-3600}" &
    wait $!
done

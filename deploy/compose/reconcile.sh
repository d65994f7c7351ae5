#!/bin/sh
# Compares catalogs with Spark again and again, and keeps the last report in the directory `report`.
# Its arguments are those of `concord reconcile`; ACCESS_TOKEN is a token that accesstoken.py has got.
set -eu

trap 'exit 0' TERM INT
while :; do
    code=0
    ACCESS_TOKEN=$(python "$(dirname "$0")/accesstoken.py") || echo "There is no token." >&2
    export ACCESS_TOKEN
    concord reconcile "$@" --report report &
    wait $! || code=$?
    case $code in
        0) ;;
        1) echo "The catalogs differ: see $PWD/report/report.html." >&2 ;;
        2) echo "A catalog could not be read: see $PWD/report/report.html." >&2 ;;
        *) echo "They could not be compared." >&2 ;;
    esac
    sleep "${RECONCILE_EVERY_SECONDS:-3600}" &
    wait $!
done

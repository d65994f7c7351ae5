#!/bin/sh
# Has a hub follow regional catalogs, and each of them the hub for what the others publish. What is
# linked already stays as it is. Then it waits for the signal to end.
#
# Usage: links.sh HUB=URL REGION=URL...
set -eu

add_link() {
    id=$1
    at=$2
    shift 2
    concord link show "$id" --url "$at" >/dev/null 2>&1 && return
    concord link add "$@" --id "$id" --url "$at"
}

hub=$1
shift
for region in "$@"; do
    add_link "${region%%=*}" "${hub#*=}" "${region#*=}"
done
for region in "$@"; do
    others=
    for other in "$@"; do
        [ "$other" = "$region" ] || others="$others --authority ${other#*=}"
    done
    # shellcheck disable=SC2086  # one option for each
    add_link "${hub%%=*}" "${region#*=}" "${hub#*=}" $others
done

touch "${TMPDIR:-/tmp}/linked"
trap 'exit 0' TERM INT
sleep infinity &
wait

#!/bin/sh
# Has a hub follow regional catalogs, and each of them the hub for what the others publish. What is
# linked already stays as it is. Then it waits for the signal to end.
#
# It is the client that accesstoken.py says, an admin of all. Each link shows a token that the node
# it follows makes for it.
#
# Usage: links.sh HUB=URL REGION=URL...
set -eu

# Has the node NAME=URL follow another one: add_link NAME=URL NAME=URL [OPTION...]
add_link() {
    id=${2%%=*} at=${1#*=} source=${2#*=} name=${1%%=*}
    shift 2
    concord link show "$id" --url "$at" >/dev/null 2>&1 && return
    LINK_TOKEN=$(concord token add --role replicator --name "$name" --url "$source")
    export LINK_TOKEN
    concord link add "$source" --id "$id" --url "$at" --token-from LINK_TOKEN "$@"
}

CONCORD_TOKEN=$(python "$(dirname "$0")/accesstoken.py")
export CONCORD_TOKEN

hub=$1
shift
for region in "$@"; do
    add_link "$hub" "$region"
done
for region in "$@"; do
    others=
    for other in "$@"; do
        [ "$other" = "$region" ] || others="$others --authority ${other#*=}"
    done
    # shellcheck disable=SC2086  # one option for each
    add_link "$region" "$hub" $others
done

touch "${TMPDIR:-/tmp}/linked"
trap 'exit 0' TERM INT
sleep infinity &
wait

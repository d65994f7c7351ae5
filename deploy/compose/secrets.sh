#!/bin/sh
# Makes .env beside compose.yaml, with a random secret for each that compose.yaml needs. One that is
# there stays, since databases and realms were made with its secrets.
set -eu

cd "$(dirname "$0")/../.."
if [ -e .env ]; then
    echo ".env is there already. To begin anew, delete it and the volumes: docker compose down --volumes" >&2
    exit 1
fi
umask 077
for name in $(grep -o '\${[A-Z_]*:?' compose.yaml | tr -d '${:?' | sort -u); do
    echo "$name=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')"
done >.env.new
mv .env.new .env

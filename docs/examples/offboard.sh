#!/bin/sh
# Off-board a person: SITE=https://… TOKEN=ght_… sh offboard.sh USERNAME [SUCCESSOR]
set -eu
offboard() {
    curl -sS --fail-with-body -w '\n' -X PUT -H "Authorization: Bearer $TOKEN" \
        -H "Content-Type: application/json" -d "$1" "$SITE/api/v1/users/$name/offboard"
}
name=$1 successor=${2:+\"$2\"}
offboard "{\"dry_run\": true, \"successor\": ${successor:-null}}"
printf 'Type %s to off-board them: ' "$name" >&2 && read -r typed
offboard "{\"confirm\": \"$typed\", \"successor\": ${successor:-null}}"

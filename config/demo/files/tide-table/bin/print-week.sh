#!/bin/sh
# Prints high and low water of a week: bin/print-week.sh <harbour>
set -eu
cd "$(dirname "$0")/.."
exec python3 -m tides "${1:?name a harbour, such as amber-quay}" --days 7

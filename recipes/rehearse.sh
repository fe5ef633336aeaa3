#!/usr/bin/env bash
# Rehearse every recipe: its steps, on text made by rule and with small models.
#
#     recipes/rehearse.sh [FOLDER]        default: a scratch folder that is removed afterwards
#
# Prints a line for each recipe with its seconds; fails if one fails, and shows the
# end of its log.
set -euo pipefail
recipes=$(cd "$(dirname "$0")" && pwd)
if [ $# -gt 0 ]; then
    folder=$1
else
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder"

failed=0
for run in "$recipes"/*/run.sh; do
    recipe=$(basename "$(dirname "$run")")
    began=$SECONDS
    if SCALE=rehearsal WORK=$folder/$recipe "$run" >"$folder/$recipe.log" 2>&1; then
        verdict=ok
    else
        verdict="failed with exit code $?"
        failed=1
    fi
    printf '%-22s %4d s  %s\n' "$recipe" $((SECONDS - began)) "$verdict"
    [ "$verdict" = ok ] || tail -n 20 "$folder/$recipe.log" >&2
done
exit "$failed"

#!/usr/bin/env bash
# Rehearse every recipe: its steps, on text made by rule and with small models; and five rounds
# of bench/chaos.py.
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
rehearse() {  # NAME COMMAND ...
    local name=$1 began=$SECONDS verdict=ok
    shift
    SCALE=rehearsal WORK=$folder/$name "$@" >"$folder/$name.log" 2>&1 ||
        verdict="failed with exit code $?"
    printf '%-22s %4d s  %s\n' "$name" $((SECONDS - began)) "$verdict"
    [ "$verdict" = ok ] || { failed=1 && tail -n 20 "$folder/$name.log" >&2; }
}
for run in "$recipes"/*/run.sh; do
    rehearse "$(basename "$(dirname "$run")")" "$run"
done
rehearse chaos python "$recipes/bench/chaos.py" --rounds 5 --seed 1
exit "$failed"

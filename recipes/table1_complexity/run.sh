#!/usr/bin/env bash
# Table 1: time, memory, sequential operations and path length of self-attention, recurrent and
# convolutional layers, measured on this machine and compared with the paper's O().
#
#     recipes/table1_complexity/run.sh
#
# SCALE=rehearsal takes few and small sizes; --dry-run only prints the steps. Prints the table;
# the plot is WORK/table1.svg. Exit code 6: an exponent lies outside its band.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
size=()
[ "$SCALE" != rehearsal ] || size=(--quick)

capture "measure" "$WORK/measured.json" python "$here/measure.py" "${size[@]}"
step "plot" "$WORK/table1.svg" python "$here/plot.py" "$WORK/measured.json" "$WORK/table1.svg"
capture "table" "$WORK/table1.md" python "$here/table.py" "$WORK/measured.json" "$here/expected.yaml"
[ -z "$DRY_RUN" ] || exit 0
cat "$WORK/table1.md"
# At the sizes of a rehearsal only the counts are meaningful.
[ "$SCALE" != rehearsal ] || printf '\nA rehearsal at small sizes: its counts hold, its times mean nothing.\n'
quantities=(sequential path)
[ "$SCALE" = rehearsal ] || quantities+=(operations time)
python "$here/table.py" "$WORK/measured.json" "$here/expected.yaml" --check "${quantities[@]}"

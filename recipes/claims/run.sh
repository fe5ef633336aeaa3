#!/usr/bin/env bash
# The claims in the paper's text, each with its section, what was measured here, and a verdict:
# why attention is scaled, what positions do, what layers cost.
#
#     recipes/claims/run.sh
#
# Minutes on a CPU. SCALE=rehearsal trains for seconds; --dry-run only prints the steps. Prints the
# table; the plot is WORK/claims.svg. Exit code 6: a claim that can be counted does not hold.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
export PYTHONPATH=$here/../walkthrough:$here/../table1_complexity${PYTHONPATH:+:$PYTHONPATH}
updates=600 widths=(4 16 64 256) seeds=(1 2) rehearsal=()
if [ "$SCALE" = rehearsal ]; then
    updates=5 widths=(4) seeds=(1) rehearsal=(--rehearsal)
fi

capture "counted" "$WORK/counted.json" python "$here/counted.py"
train() { # NAME OPTIONS...
    local name=$1
    shift
    capture "train $name" "$WORK/runs/$name.json" \
        python "$here/train.py" --updates "$updates" "$@"
}
for seed in "${seeds[@]}"; do
    for d_k in "${widths[@]}"; do
        for attention in scaled unscaled additive; do
            train "$attention-$d_k-$seed" --attention "$attention" --d-k "$d_k" --seed "$seed"
        done
    done
    train "learned-${widths[-1]}-$seed" --positions learned --d-k "${widths[-1]}" --seed "$seed"
done
[ -z "$DRY_RUN" ] || exit 0
python "$here/table.py" "$here/expected.yaml" "$WORK" --svg "$WORK/claims.svg" "${rehearsal[@]}"

#!/usr/bin/env bash
# Guided attention: word alignments from a head that has learned them, against those of a model that
# nobody told. The sample corpus knows its own alignments.
#
#     recipes/alignment/run.sh [SEED...]        default: 1
#
# UPDATES= is the length of a run (600).
# SCALE=rehearsal trains for 4 updates; --dry-run only prints the steps. Prints the alignment error
# rate and BLEU of each model on the test text.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
seeds=("${@:-1}")
UPDATES=${UPDATES:-600}
text=$WORK/text data=$WORK/data pairs=(--pairs 40000 --valid 200 --test 500) vocabulary=4000
settings=(--preset tiny --device cpu --precision float32 --steps "$UPDATES" --valid-every $((UPDATES / 2))
    --save-every $((UPDATES / 6)))
if [ "$SCALE" = rehearsal ]; then
    pairs=(--pairs 500 --valid 4 --test 20) vocabulary=900
    shrink tiny
    settings=(--preset tiny --device cpu "${small[@]}" model.d_model=16 model.d_k=4 model.d_v=4)
fi

step "sample: text made by rule" "$text/test.align" \
    aiayn sample "$text" "${pairs[@]}" --seed 1 --alignments
step "preprocess" "$data/manifest.json" aiayn preprocess "$text/train.en" "$text/train.de" \
    --alignments "$text/train.align" --valid "$text/valid.en" "$text/valid.de" \
    --vocab-size "$vocabulary" -o "$data"
for seed in "${seeds[@]}"; do
    for guided in 0 0.1; do
        run=$WORK/guided-$guided-$seed
        step "train, optim.guided=$guided, seed $seed" "$run/average.pt" \
            aiayn train "$data" -o "$run" "${settings[@]}" --seed "$seed" "optim.guided=$guided"
        capture "align the test text" "$run/test.align" \
            aiayn score --model "$run" "$text/test.en" "$text/test.de" --align
        capture "translate the test text" "$run/test.de" \
            aiayn generate "$run" -i "$text/test.en"
    done
done
[ -z "$DRY_RUN" ] || exit 0
for seed in "${seeds[@]}"; do
    for guided in 0 0.1; do
        run=$WORK/guided-$guided-$seed
        echo "optim.guided=$guided, seed $seed"
        aiayn score --alignments "$text/test.align" -i "$run/test.align"
        aiayn score "$text/test.de" -i "$run/test.de"
    done
done

#!/usr/bin/env bash
# The Transformer in one file: train a small model, translate with transformer.py, and compare with
# `aiayn generate --greedy`, line by line.
#
#     recipes/walkthrough/run.sh
#     MODEL=quickstart/model.pt recipes/walkthrough/run.sh      a model that you have
#
# Without MODEL it trains that of the quick start: minutes on two cores. SCALE=rehearsal trains
# for seconds; --dry-run only prints the steps. Prints the translations; exit code 6: they differ.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
pairs=40000 vocabulary=4000 lines=50 size=(--nproc 2)
if [ "$SCALE" = rehearsal ]; then
    pairs=300 vocabulary=800 lines=5
    size=(--steps 8 --save-every 4 --valid-every 0 batch.tokens=400 optim.warmup=4)
fi
text=$WORK/text model=${MODEL:-$WORK/run/average.pt}

step "text" "$text/test.de" aiayn sample "$text" --pairs "$pairs" --valid 200 --seed 1
if [ -z "${MODEL:-}" ]; then
    step "subwords" "$WORK/data/manifest.json" aiayn preprocess "$text/train.en" "$text/train.de" \
        --valid "$text/valid.en" "$text/valid.de" --vocab-size "$vocabulary" -o "$WORK/data"
    step "train" "$model" aiayn train "$WORK/data" -o "$WORK/run" --preset tiny \
        --device cpu --precision float32 "${size[@]}"
elif [ ! -e "$model" ]; then
    fail 2 "there is no model $model" "give a .pt file, or leave MODEL out to train one"
elif [ -z "$DRY_RUN" ]; then
    rm -f "$WORK/walk" "$WORK/generate" # they may be those of another model
fi
step "sentences" "$WORK/source" sed -n "1,${lines}w $WORK/source" "$text/test.en"
translate() { "$@" <"$WORK/source"; }
capture "transformer.py" "$WORK/walk" translate python "$here/walk.py" "$model"
capture "aiayn generate" "$WORK/generate" translate aiayn generate "$model" --greedy
[ -z "$DRY_RUN" ] || exit 0
cat "$WORK/walk"
differing=$(diff "$WORK/walk" "$WORK/generate" | grep -c '^<' || true)
[ "$differing" = 0 ] || fail 6 "$differing of $lines lines differ" "compare $WORK/walk and $WORK/generate"
say "all $lines lines are those of aiayn generate --greedy"

#!/usr/bin/env bash
# Text that is drawn anew in each epoch: other subwords, upper case, typing errors.
#
#     MULTI30K=FOLDER SCALE=laptop recipes/sampling/run.sh
#
# The same model three times: on the text as it is, with batch.sampling, and with batch.noise and a
# vocabulary with --case-markup; SEEDS=N trains each N times. All translate the test text, and the same
# in upper case. Drawn subwords are shorter and more, so the model that learns them gets fewer updates,
# for equal time.
# SCALE=rehearsal runs the same steps on text made by rule; --dry-run only prints them.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
# shellcheck source=recipes/multi30k.sh
. "$(dirname "$0")/../multi30k.sh"

corpus de
prepare
step "preprocess, capitals marked" "$WORK/marked/manifest.json" \
    aiayn preprocess "$train.en" "$train.de" --valid "$valid.en" "$valid.de" -o "$WORK/marked" \
    --vocab-size "$vocabulary" --case-markup
for side in en de; do
    capture "upper case" "$WORK/upper.$side" \
        python -c 'import sys; sys.stdout.write(open(sys.argv[1], encoding="utf-8").read().upper())' "$test.$side"
done

# What is drawn, and the updates for equal time.
declare -A drawn=(
    [plain]="--steps $(at_scale 2500 4)"
    [sampling]="--steps $(at_scale 2000 4) batch.sampling=0.1"
    [noise]="--steps $(at_scale 2500 4) batch.noise=0.05"
)
compare() { # KIND SEED
    local name options data=$WORK/data
    [ "$1" != noise ] || data=$WORK/marked
    name=$(of_seed "$1" "$2")
    read -ra options <<<"${drawn[$1]}"
    learn "$name" "$data" --seed "$2" "${options[@]}"
    translate "$name-test" "$WORK/$name/average.pt" de --alpha 1.4
    text=$WORK/upper translate "$name-upper" "$WORK/$name/average.pt" de --alpha 1.4
}
models=() compared=()
for seed in $(seq "$SEEDS"); do
    for kind in plain sampling noise; do
        models+=("$kind $seed")
        name=$(of_seed "$kind" "$seed")
        compared+=("$name-test" "$name-upper")
    done
done
at_once compare "${models[@]}"
table "${compared[@]}"

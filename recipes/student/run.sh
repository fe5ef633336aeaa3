#!/usr/bin/env bash
# A student: a small decoder that learns from the translations of a larger model.
#
#     MULTI30K=FOLDER SCALE=laptop recipes/student/run.sh
#
# A teacher translates the training text, the best of 8 by chrF are kept, a reverse model leaves out
# what it doubts, and a student of 3+1 layers learns the rest; beside it, the same student on the
# original text; SEEDS=N trains both N times. All translate greedily; the student in int8 and in CTranslate2, too.
# SCALE=rehearsal runs the same steps on text made by rule; --dry-run only prints them.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
# shellcheck source=recipes/multi30k.sh
. "$(dirname "$0")/../multi30k.sh"
student=(model.decoder_layers=1 decode.beam=1)
# The same translations, faster.
compiled=()
! command -v g++ >/dev/null || compiled=(--compile)

corpus de
prepare
step "preprocess, reversed" "$WORK/reversed/manifest.json" \
    aiayn preprocess "$train.de" "$train.en" --valid "$valid.de" "$valid.en" -o "$WORK/reversed" \
    --vocab-from "$WORK/data"
at_once learn_of "teacher data" "reverse reversed"
step "translate the training text" "$WORK/nbest.tsv" \
    aiayn generate "$WORK/teacher/average.pt" -i "$train.en" -o "$WORK/nbest.tsv" \
    --nbest "$(at_scale 8 2)" --min-length 3 --format tsv "${compiled[@]}"
capture "choose by chrF" "$WORK/chosen.de" \
    python "$here/choose.py" best "$WORK/nbest.tsv" "$train.de"
capture "score by the reverse model" "$WORK/reverse.scores" \
    aiayn score --model "$WORK/reverse/average.pt" "$WORK/chosen.de" "$train.en"
step "leave out what it doubts most" "$WORK/distilled.de" \
    python "$here/choose.py" keep 0.95 "$WORK/reverse.scores" "$train.en" "$WORK/chosen.de" \
    "$WORK/distilled.en" "$WORK/distilled.de"
step "preprocess, distilled" "$WORK/distilled/manifest.json" \
    aiayn preprocess "$WORK/distilled.en" "$WORK/distilled.de" --valid "$valid.en" "$valid.de" \
    -o "$WORK/distilled" --vocab-from "$WORK/data"

translate teacher-beam-4 "$WORK/teacher/average.pt" de --beam 4 --alpha 1.4
translate teacher-greedy "$WORK/teacher/average.pt" de --greedy
compare() { # PAIRS SEED
    local name
    name=$(of_seed "student-on-$1" "$2")
    learn "$name" "$WORK/$1" "${student[@]}" --seed "$2"
    translate "$name-greedy" "$WORK/$name/average.pt" de --greedy
}
students=() compared=()
for seed in $(seq "$SEEDS"); do
    for pairs in distilled data; do
        students+=("$pairs $seed")
        compared+=("$(of_seed "student-on-$pairs" "$seed")-greedy")
    done
done
at_once compare "${students[@]}"
average=$WORK/student-on-distilled/average.pt
translate student-int8 "$average" de --greedy --precision int8
step "export" "$WORK/ctranslate2/model.bin" \
    aiayn export "$average" --to ctranslate2 --int8 -o "$WORK/ctranslate2" --verify "$(at_scale 20 2)"

table teacher-beam-4 teacher-greedy "${compared[@]}" student-int8
[ -z "$DRY_RUN" ] || exit 0
for way in "" "${compiled[@]}"; do
    python "$here/speed.py" "$test.en" "$WORK/teacher/average.pt" "$average" \
        --rounds "$(at_scale 9 1)" ${way:+"$way"}
done

#!/usr/bin/env bash
# Back-translation: German text without translations helps to translate into German.
#
#     MULTI30K=FOLDER SCALE=laptop recipes/back_translation/run.sh
#
# Every second pair of Multi30k is training text; of the others the German side alone is known. A
# reverse model translates it into English, and both are mixed, half of the target tokens each. Beside
# it, the same model and updates on the true pairs alone.
# SCALE=rehearsal runs the same steps on text made by rule; --dry-run only prints them.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
# shellcheck source=recipes/multi30k.sh
. "$(dirname "$0")/../multi30k.sh"

corpus de
for language in en de; do
    capture "every second pair" "$WORK/half.$language" awk 'NR % 2' "$train.$language"
done
capture "German without translations" "$WORK/alone.de" awk 'NR % 2 == 0' "$train.de"

step "preprocess" "$WORK/real/manifest.json" \
    aiayn preprocess "$WORK/half.en" "$WORK/half.de" --valid "$valid.en" "$valid.de" -o "$WORK/real" \
    --vocab-size "$vocabulary"
step "preprocess, reversed" "$WORK/reversed/manifest.json" \
    aiayn preprocess "$WORK/half.de" "$WORK/half.en" --valid "$valid.de" "$valid.en" \
    -o "$WORK/reversed" --vocab-from "$WORK/real"
at_once learn_of "reverse reversed" "real-alone real"
step "translate back" "$WORK/synthetic.en" \
    aiayn generate "$WORK/reverse/average.pt" -i "$WORK/alone.de" -o "$WORK/synthetic.en" --alpha 1.4 \
    --min-length 3
step "preprocess, synthetic" "$WORK/synthetic/manifest.json" \
    aiayn preprocess "$WORK/synthetic.en" "$WORK/alone.de" -o "$WORK/synthetic" --vocab-from "$WORK/real"

learn_of mixed real:0.5 synthetic:0.5
translate real-alone "$WORK/real-alone/average.pt" de --alpha 1.4
translate mixed "$WORK/mixed/average.pt" de --alpha 1.4
table real-alone mixed

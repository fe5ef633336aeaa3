#!/usr/bin/env bash
# One model for two target languages, beside a model for each.
#
#     MULTI30K=FOLDER SCALE=laptop recipes/multilingual/run.sh
#
# English to German and to French: one vocabulary over all, tags that name the language, half of the
# target tokens each, and as many updates a language as the single models have.
# SCALE=rehearsal runs the same steps on text made by rule; --dry-run only prints them.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
# shellcheck source=recipes/multi30k.sh
. "$(dirname "$0")/../multi30k.sh"

declare -A tags=([de]='>>deu<<' [fr]='>>fra<<')
corpus de fr

step "one vocabulary over all" "$WORK/all/manifest.json" \
    aiayn preprocess "$train.en" "$train.de" "$train.en" "$train.fr" \
    --tag "${tags[de]} ${tags[fr]}" --vocab-size "$vocabulary" -o "$WORK/all"
for language in de fr; do
    step "preprocess $language" "$WORK/$language/manifest.json" \
        aiayn preprocess "$train.en" "$train.$language" --valid "$valid.en" "$valid.$language" \
        --tag "${tags[$language]}" --vocab-from "$WORK/all" -o "$WORK/$language"
done

# After the settings of a single model, so that these updates count.
compare() ( # NAME DATA...
    [ "$1" != both ] || settings+=(--steps "$(at_scale 5000 8)")
    learn_of "$@"
)
at_once compare "both de:0.5 fr:0.5" "single-de de" "single-fr fr"

names=()
for language in de fr; do
    code=${tags[$language]//[<>]/}
    translate "single-$language" "$WORK/single-$language/average.pt" "$language" --to "$code" --alpha 1.4
    translate "both-$language" "$WORK/both/average.pt" "$language" --to "$code" --alpha 1.4
    names+=("single-$language" "both-$language")
done
table "${names[@]}"
[ -n "$DRY_RUN" ] || python "$here/language.py" "$train.de" "$WORK/both-de.hyp" "$train.fr" "$WORK/both-fr.hyp"

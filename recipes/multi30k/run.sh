#!/usr/bin/env bash
# Multi30k, English to German image captions: a real corpus in an hour on a laptop.
#
#     MULTI30K=FOLDER recipes/multi30k/run.sh [reference|best|all]         default: all
#
# FOLDER holds train, val and test_2016_flickr, each as .en and .de, one sentence per line.
# reference: the settings that fairseq was measured with, each epoch scored. best: the best settings
# known. SCALE=rehearsal runs the same steps in a minute on a CPU; --dry-run only prints them.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
[ "$SCALE" != laptop ] || fail 2 "this recipe is of a laptop's scale as it is" "leave SCALE out"
# shellcheck disable=SC2034  # for the plan
vocabulary=$(at_scale 8000 500)
data=$WORK/data

case ${1:-all} in
reference | best) parts=$1 ;;
all) parts="reference best" ;;
*) fail 2 "there is no part '$1' in this recipe" "choose reference, best or all" ;;
esac

if [ "$SCALE" = rehearsal ]; then
    MULTI30K=$WORK/sample
    train=$MULTI30K/train valid=$MULTI30K/valid test=$MULTI30K/test
    step "sample: English-German text made by rule" "$test.de" \
        aiayn sample "$MULTI30K" --pairs 2000 --valid 8 --test 8
else
    MULTI30K=${MULTI30K:-MULTI30K}
    train=$MULTI30K/train valid=$MULTI30K/val test=$MULTI30K/test_2016_flickr
    for file in {"$train","$valid","$test"}.{en,de}; do
        [ -n "$DRY_RUN" ] || [ -e "$file" ] || fail 3 "$file does not exist (MULTI30K=FOLDER sets the folder)" \
            "get data/task1/raw of https://github.com/multi30k/dataset, unpack it, and run MULTI30K=FOLDER $0"
    done
fi

step "preprocess" "$data/manifest.json" \
    aiayn preprocess "$train.en" "$train.de" --valid "$valid.en" "$valid.de" -o "$data" \
    --subword bpe --vocab-size "$vocabulary" --shared

# Translate the test set and score it.
translate() { # MODEL OUTPUT OPTIONS...
    step "translate to ${2##*/}.hyp" "$2.hyp" aiayn generate "$1" -i "$test.en" -o "$2.hyp" "${@:3}"
    capture "score ${2##*/}.hyp" "$2.json" aiayn score "$test.de" -i "$2.hyp" --json
}

# Four epochs without averaging; the checkpoint after each is scored with beam search and greedily.
reference() {
    local run=$WORK/reference updates checkpoint
    read -ra updates <<<"$(at_scale "518 1036 1554 2072" "2 4")"
    shrink base
    step "train the reference" "$run/checkpoints/$(printf 'step-%08d.pt' "${updates[-1]}")" \
        aiayn train "$data" -o "$run" --average 1 "${small[@]:---config=$here/reference.yaml}"
    for update in "${updates[@]}"; do
        checkpoint=$run/checkpoints/$(printf 'step-%08d.pt' "$update")
        translate "$checkpoint" "$run/beam-$update" --beam 4 --alpha 0.6
        translate "$checkpoint" "$run/greedy-$update" --greedy
    done
    [ -n "$DRY_RUN" ] ||
        python "$here/table.py" "$here/expected.yaml" "$run" "${updates[@]}" --scale "$SCALE"
}

best() {
    local run=$WORK/best
    shrink base
    step "train the best" "$run/average.pt" \
        aiayn train "$data" -o "$run" --nproc "$(at_most 2 "$GPUS")" "${small[@]:---config=$here/best.yaml}"
    translate "$run/average.pt" "$run/test" --beam 4 --alpha 1.4 # of four, the best on the validation text
    [ -z "$DRY_RUN" ] || return 0
    aiayn score "$test.de" -i "$run/test.hyp" --metric bleu --metric chrf
    [ "$SCALE" != rehearsal ] || say "a rehearsal, on other data and with a small model: these scores mean nothing"
}

for part in $parts; do "$part"; done

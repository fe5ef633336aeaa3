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
# shellcheck source=recipes/multi30k.sh
. "$(dirname "$0")/../multi30k.sh"

case ${1:-all} in
reference | best) parts=$1 ;;
all) parts="reference best" ;;
*) fail 2 "there is no part '$1' in this recipe" "choose reference, best or all" ;;
esac

corpus de

# Four epochs without averaging; the checkpoint after each is scored with beam search and greedily.
reference() {
    local run=$WORK/reference updates checkpoint
    read -ra updates <<<"$(at_scale "518 1036 1554 2072" "2 4")"
    prepare
    step "train the reference" "$run/checkpoints/$(printf 'step-%08d.pt' "${updates[-1]}")" \
        aiayn train "$WORK/data" -o "$run" --average 1 "${small[@]:---config=$here/reference.yaml}"
    for update in "${updates[@]}"; do
        checkpoint=$run/checkpoints/$(printf 'step-%08d.pt' "$update")
        translate "reference/beam-$update" "$checkpoint" de --beam 4 --alpha 0.6
        translate "reference/greedy-$update" "$checkpoint" de --greedy
    done
    [ -n "$DRY_RUN" ] ||
        python "$here/table.py" "$here/expected.yaml" "$run" "${updates[@]}" --scale "$SCALE"
}

best() {
    prepare
    [ "$SCALE" = rehearsal ] || settings=(--config "$here/best.yaml")
    learn best "$WORK/data"
    translate best-test "$WORK/best/average.pt" de --beam 4 --alpha 1.4
    [ -z "$DRY_RUN" ] || return 0
    aiayn score "$test.de" -i "$WORK/best-test.hyp" --metric bleu --metric chrf
    [ "$SCALE" != rehearsal ] || say "a rehearsal, on other data and with a small model: these scores mean nothing"
}

for part in $parts; do "$part"; done

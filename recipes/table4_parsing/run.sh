#!/usr/bin/env bash
# Table 4: English constituency parsing, F1 on section 23 of the Wall Street Journal.
#
#     TREEBANK=.../combined/wsj recipes/table4_parsing/run.sh wsj
#     TREEBANK=.../combined/wsj RAW=news.txt recipes/table4_parsing/run.sh [all]
#
# wsj: the treebank alone. semi: the treebank, and RAW, text that the wsj model parses first. all:
# both. TREEBANK holds a folder of .mrg files for each section, as LDC99T42 ships; or give files
# of your own: TRAIN= DEV= TEST=. RAW has one sentence per line, in the treebank's tokens.
# Further arguments are settings of `aiayn train`, such as model.d_model=256; SUBWORD= is what the
# source is cut into (bpe, word), VOCABULARY= how many of them there are, AVERAGE= how many checkpoints.
# SCALE=laptop takes the sample of the treebank that comes with NLTK, PTB_SAMPLE=FOLDER with train.mrg
# and dev.mrg, and a model 4 times narrower with half the layers, on a CPU; the last 300 trees of train
# are the test part. SCALE=rehearsal runs the same steps in a minute; --dry-run only prints them.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
wanted=${1:-$(at_scale all all wsj)}
settings=("${@:2}")
# On a laptop, 3,000 trees and their constituents have to do. Whole words, because a small model finds
# the next word more easily than the next one that begins with a certain subword.
# shellcheck disable=SC2034  # for shrink
narrower=4 laptop=(model.layers=3 model.dropout=0.2 model.attention_dropout=0.1 batch.tokens=1500
    batch.micro_tokens=1600 optim.factor=0.5 optim.warmup=1000 train.steps=6500 train.save_every=500
    train.valid_every=500 train.keep=last=5,best=8 decode.beam=4)
SUBWORD=${SUBWORD:-$(at_scale bpe bpe word)}

sections() { # FIRST LAST
    local number
    for number in $(seq -w "$1" "$2"); do cat "$TREEBANK/$number"/*.mrg; done
}

# Sections 02 to 21 for training, 22 for development, 23 for the report.
trees=$WORK/trees
more=() # besides TRAIN
if [ "$SCALE" = rehearsal ]; then
    TRAIN=$trees/train.mrg DEV=$trees/dev.mrg TEST=$trees/test.mrg RAW=$trees/raw.txt
    capture "training trees" "$TRAIN" python "$here/make_trees.py" 500 1
    capture "development trees" "$DEV" python "$here/make_trees.py" 4 2
    capture "test trees" "$TEST" python "$here/make_trees.py" 4 3
    words() { sed 's/([^ ]* //g; s/[()]//g' <(python "$here/make_trees.py" 20 4); }
    capture "raw text" "$RAW" words
elif [ "$SCALE" = laptop ]; then
    PTB_SAMPLE=${PTB_SAMPLE:-PTB_SAMPLE}
    TRAIN=$trees/train.mrg DEV=$PTB_SAMPLE/dev.mrg TEST=$trees/test.mrg
    [ -n "$DRY_RUN" ] || [ -e "$DEV" ] ||
        fail 3 "$DEV does not exist (PTB_SAMPLE=FOLDER sets the folder)" \
            "join the files of NLTK's corpus treebank/combined: wsj_0001 to 0159 as train.mrg, 0160 to 0179 as dev.mrg"
    step "split off a test part" "$TEST" \
        python "$here/split_trees.py" "$PTB_SAMPLE/train.mrg" 300 "$TRAIN" "$TEST"
    more=("$trees/phrases.mrg")
    capture "constituents of the training trees" "${more[0]}" python "$here/phrases.py" "$TRAIN"
elif [ -z "${TRAIN:-}" ] || [ -z "${DEV:-}" ] || [ -z "${TEST:-}" ]; then
    TREEBANK=${TREEBANK:-TREEBANK} TRAIN=$trees/train.mrg DEV=$trees/dev.mrg TEST=$trees/test.mrg
    [ -n "$DRY_RUN" ] || [ -d "$TREEBANK/02" ] || [ -e "$TEST" ] ||
        fail 3 "$TREEBANK/02 is not a folder, and the treebank's sections 02 to 23 are wanted" \
            "TREEBANK=.../combined/wsj of LDC99T42; or TRAIN=, DEV= and TEST=, .mrg files of your own"
    capture "sections 02 to 21" "$TRAIN" sections 02 21
    capture "section 22" "$DEV" sections 22 22
    capture "section 23" "$TEST" sections 23 23
fi

# Section 6.3: 4 layers, d_model 1024, the rest as in translation; beam 21, alpha 0.3, outputs
# of up to 300 more tokens than the input. Which checkpoints count is decided on section 22.
parse() { # ROW VOCABULARY TRAINING_TREES...
    local row=$1 data=$WORK/$1/data run=$WORK/$1/run hardware
    mapfile -t hardware < <(hardware)
    # shellcheck disable=SC2034  # for the plan: subwords of words, and of tree symbols
    vocabulary=$2,512
    step "preprocess for $row" "$data/manifest.json" \
        aiayn preprocess "${@:3}" --task parsing --valid "$DEV" --test "$TEST" -o "$data" \
        --subword "$SUBWORD" --vocab-size "$2" --max-length 512
    shrink parsing
    step "train $row" "$run/average.pt" \
        aiayn train "$data" -o "$run" --preset parsing --nproc "$GPUS" \
        "${small[@]:---config=$here/$row.yaml}" "${settings[@]}"
    step "average the best checkpoints" "$run/model.pt" \
        aiayn average "$run" --best "${AVERAGE:-$(at_scale 5 1 8)}" -o "$run/model.pt"
    step "parse the test sentences" "$run/test.trees" \
        aiayn generate "$run/model.pt" -i "$data/test.src" -o "$run/test.trees" --beam 21 --alpha 0.3 --extra-length 300
    capture "score $row" "$run/score.json" \
        aiayn score --trees "$data/test.ref" -i "$run/test.trees" --json
    capture "F1 by length" "$run/lengths.md" \
        python "$here/lengths.py" "$data/test.ref" "$run/test.trees"
    capture "info about the run" "$run/info.json" aiayn info "$run" --json
    capture "results card" "$run/card.md" \
        python "$here/../card.py" "$here/expected.yaml" "$row" --scale "$SCALE" \
        --info "$run/info.json" --score "$run/score.json" \
        "${hardware[@]}" --json "$run/card.json"
    [ -n "$DRY_RUN" ] || cat "$run/card.md" "$run/lengths.md"
}

case $wanted in
wsj | semi | all) ;;
*) fail 2 "there is no row '$wanted' in this table" "choose wsj, semi or all" ;;
esac
# The parser of the treebank comes first in any case: semi is trained on its parses of RAW.
parse wsj "${VOCABULARY:-$(at_scale 16000 300 6000)}" "$TRAIN" "${more[@]}"
[ "$wanted" != wsj ] || exit 0

# Differs from the paper, whose 17 million parsed sentences were never released.
RAW=${RAW:-$([ -z "$DRY_RUN" ] || echo RAW)}
[ -n "$RAW" ] || fail 2 "there is no text to train on besides the treebank" "RAW=news.txt $0 $wanted"
step "parse raw text by the wsj model" "$WORK/raw.trees" \
    aiayn generate "$WORK/wsj/run/model.pt" -i "$RAW" -o "$WORK/raw.trees" --greedy
parse semi "${VOCABULARY:-$(at_scale 32000 300)}" "$TRAIN" "$WORK/raw.trees"

# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # for the recipes, and from steps.sh
# Shared by the recipes on Multi30k, after steps.sh: the text, a model of 3+3 layers, and its score.
#
#     corpus LANGUAGE...               set train, valid, test: of each a file .en and one for each LANGUAGE
#     prepare                          the English-German text as $WORK/data
#     learn NAME DATA... [SETTING...]  train $WORK/NAME, by the settings of multi30k/quarter_hour.yaml
#     of_seed NAME SEED                the name of what is trained with this seed, of 1 to $SEEDS
#     learn_of NAME DATA...            the same with the data folders $WORK/DATA, for at_once
#     translate NAME MODEL LANGUAGE OPTIONS...    the test text, or $text, and its BLEU

vocabulary=$(at_scale 8000 400)
SEEDS=${SEEDS:-1}
text="" # not that of the environment

corpus() {
    local language split file
    if [ "$SCALE" = rehearsal ]; then
        train=$WORK/sample/train valid=$WORK/sample/valid test=$WORK/sample/test
        step "sample: English-German text made by rule" "$test.de" \
            aiayn sample "$WORK/sample" --pairs 150 --valid 2 --test 2
        for language in "$@"; do
            for split in "$train" "$valid" "$test"; do
                # No text made by rule is French: German in capitals stands in for it.
                capture "$split.$language" "$split.$language" awk '{ print toupper($0) }' "$split.de"
            done
        done
        return
    fi
    MULTI30K=${MULTI30K:-MULTI30K}
    train=$MULTI30K/train valid=$MULTI30K/val test=$MULTI30K/test_2016_flickr
    for language in en "$@"; do
        for split in "$train" "$valid" "$test"; do
            file=$split.$language
            [ -n "$DRY_RUN" ] || [ -e "$file" ] || fail 3 "$file does not exist (MULTI30K=FOLDER sets the folder)" \
                "get data/task1/raw of https://github.com/multi30k/dataset, unpack it, and run MULTI30K=FOLDER $0"
        done
    done
}

if [ "$SCALE" = rehearsal ]; then
    shrink base
    settings=("${small[@]}" model.layers=2)
else
    settings=(--config "$here/../multi30k/quarter_hour.yaml")
fi

learn() { # NAME DATA... SETTING...
    step "train $1" "$WORK/$1/average.pt" \
        aiayn train "${@:2}" -o "$WORK/$1" --nproc "$GPUS" "${settings[@]}"
}

learn_of() { # NAME DATA...
    local name=$1
    shift
    learn "$name" "${@/#/$WORK/}"
}

of_seed() {
    echo "$1$([ "$2" = 1 ] || echo "-seed$2")"
}

prepare() {
    step "preprocess" "$WORK/data/manifest.json" \
        aiayn preprocess "$train.en" "$train.de" --valid "$valid.en" "$valid.de" -o "$WORK/data" \
        --vocab-size "$vocabulary"
}

translate() { # NAME MODEL LANGUAGE OPTIONS...
    local of=${text:-$test}
    step "translate by $1" "$WORK/$1.hyp" aiayn generate "$2" -i "$of.en" -o "$WORK/$1.hyp" "${@:4}"
    capture "score $1" "$WORK/$1.json" aiayn score "$of.$3" -i "$WORK/$1.hyp" --json
}

# A table in Markdown: the BLEU of each translation, of all seeds and their mean.
table() { # NAME...
    [ -z "$DRY_RUN" ] || return 0
    python "$here/../bleu_table.py" "$SCALE" "${@/#/$WORK/}"
}

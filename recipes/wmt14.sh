# shellcheck shell=bash
# shellcheck disable=SC2154  # here and small: from steps.sh; target, vocabulary: from the recipe
# Shared by the two recipes of table 2, after steps.sh: text, test sets, and the steps from a data
# folder to a results card.

# Your own files, plain text with one sentence per line, in place of a download.
INSTEAD="give your own text: SRC=, TGT= for training; DEV_SRC=, DEV_TGT=; TEST_SRC=, TEST_TGT="
text=$WORK/text
scoring=() # options of `aiayn score`
# On a laptop: half as wide, with more dropout for 29,000 pairs; 13 epochs or so.
# shellcheck disable=SC2034  # for shrink
narrower=2 laptop=(model.dropout=0.2 batch.tokens=1500 batch.micro_tokens=1600 optim.factor=0.5
    optim.warmup=600 train.steps=4500 train.save_every=150 train.valid_every=500
    train.keep=last=10,best=1 train.average=10)

# What both corpora have in common: Europarl and Common Crawl.
archives=$WORK/archives
download_common() {
    download http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz "$archives/europarl-v7.tgz" \
        657632379:0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7
    download http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz "$archives/commoncrawl.tgz" \
        918311367:c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5
}
unpack_common() { # PAIR SIDE
    tar -xzOf "$archives/europarl-v7.tgz" "training/europarl-v7.$1.$2"
    tar -xzOf "$archives/commoncrawl.tgz" "commoncrawl.$1.$2"
}

# Keep pairs of lines with 1 to MAX words per side, the longer side at most RATIO times as long as the
# shorter (0: any), and without bad bytes, of which a single one would end the recipe later.
clean() { # SRC TGT MAX RATIO CLEAN_SRC CLEAN_TGT
    local lines=("$(wc -l <"$1")" "$(wc -l <"$2")")
    [ "${lines[0]}" = "${lines[1]}" ] ||
        fail 3 "$1 has ${lines[0]} lines and $2 has ${lines[1]}" \
            "give files whose lines are translations of one another"
    mkdir -p "${5%/*}"
    python "${BASH_SOURCE[0]%/*}/clean.py" "${@:1:4}" "$5.part" "$6.part"
    mv "$5.part" "$5"
    mv "$6.part" "$6"
}

# The other scales take the path of the user's own text. A laptop: the 29,000 captions of Multi30k.
# A rehearsal: a sample made by rule, German for either language.
use_text() { # TRAIN DEV TEST TARGET
    SRC=$1.en TGT=$1.$4
    # shellcheck disable=SC2034  # for the recipes
    DEV_SRC=$2.en DEV_TGT=$2.$4
    TEST_SRC=$3.en TEST_TGT=$3.$4
}
[ -n "${BUNDLE:-}" ] || case $SCALE in
laptop)
    MULTI30K=${MULTI30K:-MULTI30K}
    use_text "$MULTI30K"/{train,val,test_2016_flickr} "$target"
    for file in "$SRC" "$TGT" "$DEV_SRC" "$DEV_TGT" "$TEST_SRC" "$TEST_TGT"; do
        [ -n "$DRY_RUN" ] || [ -e "$file" ] || fail 3 "$file does not exist (MULTI30K=FOLDER sets the folder)" \
            "get data/task1/raw of https://github.com/multi30k/dataset, unpack it, and run MULTI30K=FOLDER $0"
    done
    ;;
rehearsal)
    step "sample: English-German text made by rule" "$WORK/sample/test.de" \
        aiayn sample "$WORK/sample" --pairs 2000 --valid 8 --test 8
    use_text "$WORK"/sample/{train,valid,test} de
    ;;
esac
[ -n "${SRC:-}" ] || [ -z "${TGT:-}" ] || fail 2 "TGT is given without SRC" "give both or none"
[ -n "${TGT:-}" ] || [ -z "${SRC:-}" ] || fail 2 "SRC is given without TGT" "give both or none"

# newstest2013 to develop on, newstest2014 to report: all 3,003 lines, not the 2,737 of `wmt14`.
get_test_sets() {
    get_text DEV_SRC newstest2013.src wmt13 "en-$target" src
    get_text DEV_TGT newstest2013.ref wmt13 "en-$target" ref
    get_text TEST_SRC newstest2014.src wmt14/full "en-$target" src
    get_text TEST_TGT newstest2014.ref wmt14/full "en-$target" ref
}
get_text() { # VARIABLE FILE TEST_SET LANGUAGES src|ref
    local -n file=$1
    [ -z "${file:-}" ] || return 0
    file=$text/$2
    capture "$2" "$file" from_sacrebleu "${@:3}"
}
# sacreBLEU downloads a test set and checks it.
from_sacrebleu() { # TEST_SET LANGUAGES src|ref
    sacrebleu -t "$1" -l "$2" --echo "$3" || fail 3 "the test set $1 could not be downloaded" "$INSTEAD"
}

# Section 5.1: one vocabulary for both languages.
preprocess() { # OPTIONS...
    step "preprocess" "$WORK/data/manifest.json" \
        aiayn preprocess "$text/train.en" "$text/train.$target" --valid "$DEV_SRC" "$DEV_TGT" -o "$WORK/data" \
        "$@" --languages "en-$target" --vocab-size "$vocabulary" --shared
}

# Sections 5 and 6.1: train, average the last checkpoints (5 for base, 20 for big: in the preset),
# translate with beam 4 and alpha 0.6, score, report. The paper saved every 10 minutes, which were
# 1,500 updates of base and 600 of big on its GPUs; on others they would be other checkpoints.
reproduce() { # ROW PRESET
    local row=$1 preset=$2 run=$WORK/$1 hardware
    mapfile -t hardware < <(hardware)
    shrink "$preset"
    ((${#small[@]})) || small=(--save-every "$([ "$row" = base ] && echo 1500 || echo 600)")
    step "train $row" "$run/average.pt" \
        aiayn train "$WORK/data" -o "$run" --preset "$preset" --nproc "$GPUS" "${small[@]}"
    step "translate the test set" "$run/test.out" \
        aiayn generate "$run/average.pt" -i "$TEST_SRC" -o "$run/test.out" \
        --beam 4 --alpha 0.6 --extra-length 50
    capture "plain text of the translations" "$run/test.hyp" "${to_text:-cat}" "$run/test.out"
    capture "score: the paper's BLEU, and sacreBLEU" "$run/score.json" \
        aiayn score "$TEST_TGT" -i "$run/test.hyp" -l "en-$target" --paper "${scoring[@]}" --json
    capture "info about the run" "$run/info.json" aiayn info "$run" --json
    capture "results card" "$run/card.md" \
        python "$here/../card.py" "$here/expected.yaml" "$row" --scale "$SCALE" \
        --info "$run/info.json" --score "$run/score.json" \
        "${hardware[@]}" --json "$run/card.json"
    [ -n "$DRY_RUN" ] || cat "$run/card.md"
}

# The rows to run.
rows() { # data|base|big|all
    case $1 in
    data) ;;
    base | big) echo "$1" ;;
    all) at_scale "base big" "base big" base ;;
    *) fail 2 "there is no row '$1' in this table" "choose data, base, big or all" ;;
    esac
}

# shellcheck shell=bash
# shellcheck disable=SC2154  # here and small: from steps.sh; vocabulary: from the recipe
# Shared by the two recipes of table 2, after steps.sh: text, test sets, and the steps from a data
# folder to a results card.

# Your own files, plain text with one sentence per line, in place of a download.
INSTEAD="give your own text: SRC=, TGT= for training; DEV_SRC=, DEV_TGT=; TEST_SRC=, TEST_TGT="
text=$WORK/text

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

# One line of each file is a pair. Keep it if each side has 1 to MAX words, punctuation marks
# counted as words, and the longer side at most RATIO times as many as the shorter (0: any).
clean() { # SRC TGT MAX RATIO CLEAN_SRC CLEAN_TGT
    local lines=("$(wc -l <"$1")" "$(wc -l <"$2")")
    [ "${lines[0]}" = "${lines[1]}" ] ||
        fail 3 "$1 has ${lines[0]} lines and $2 has ${lines[1]}" \
            "give files whose lines are translations of one another"
    mkdir -p "${5%/*}"
    paste "$1" "$2" | LC_ALL=C awk -F '\t' -v max="$3" -v ratio="$4" \
        -v clean_source="$5.part" -v clean_target="$6.part" '
        function words(line) { gsub(/[.,;:!?()"]/, " & ", line); return split(line, parts, " ") }
        NF == 2 {
            s = words($1); t = words($2)
            if (s < 1 || t < 1 || s > max || t > max) next
            if (ratio && (s > ratio * t || t > ratio * s)) next
            print $1 > clean_source; print $2 > clean_target; kept++
        }
        END { printf "%d of %d pairs kept\n", kept, NR }'
    mv "$5.part" "$5"
    mv "$6.part" "$6"
}

# A rehearsal takes the path of the user's own text, with a sample made by rule.
if [ "$SCALE" = rehearsal ]; then
    sample=$WORK/sample
    step "sample: English-German text made by rule" "$sample/test.de" \
        aiayn sample "$sample" --pairs 2000 --valid 8 --test 8
    SRC=$sample/train.en TGT=$sample/train.de
    # shellcheck disable=SC2034  # for the recipes
    DEV_SRC=$sample/valid.en DEV_TGT=$sample/valid.de
    TEST_SRC=$sample/test.en TEST_TGT=$sample/test.de
fi
[ -n "${SRC:-}" ] || [ -z "${TGT:-}" ] || fail 2 "TGT is given without SRC" "give both or none"
[ -n "${TGT:-}" ] || [ -z "${SRC:-}" ] || fail 2 "SRC is given without TGT" "give both or none"

# newstest2013 to develop on, newstest2014 to report: all 3,003 lines, not the 2,737 of `wmt14`.
get_test_sets() { # LANGUAGES
    get_text DEV_SRC newstest2013.src wmt13 "$1" src
    get_text DEV_TGT newstest2013.ref wmt13 "$1" ref
    get_text TEST_SRC newstest2014.src wmt14/full "$1" src
    get_text TEST_TGT newstest2014.ref wmt14/full "$1" ref
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

# Section 5.1: one vocabulary of byte pairs for both languages.
preprocess() { # TARGET OPTIONS...
    step "preprocess" "$WORK/data/manifest.json" \
        aiayn preprocess "$text/train.en" "$text/train.$1" --valid "$DEV_SRC" "$DEV_TGT" -o "$WORK/data" \
        "${@:2}" --languages "en-$1" --subword bpe --vocab-size "$vocabulary" --shared
}

# Sections 5 and 6.1: train, average the last checkpoints (5 for base, 20 for big, one every 10
# minutes: all of it in the preset), translate with beam 4 and alpha 0.6, score, report.
reproduce() { # ROW PRESET LANGUAGES
    local row=$1 preset=$2 languages=$3 run=$WORK/$1
    shrink "$preset"
    step "train $row" "$run/average.pt" \
        aiayn train "$WORK/data" -o "$run" --preset "$preset" --nproc "$GPUS" "${small[@]}"
    step "translate the test set" "$run/test.hyp" \
        aiayn generate "$run/average.pt" -i "$TEST_SRC" -o "$run/test.hyp" \
        --beam 4 --alpha 0.6 --extra-length 50
    capture "score: the paper's BLEU, and sacreBLEU" "$run/score.json" \
        aiayn score "$TEST_TGT" -i "$run/test.hyp" -l "$languages" --paper --json
    capture "info about the run" "$run/info.json" aiayn info "$run" --json
    capture "results card" "$run/card.md" \
        python "$here/../card.py" "$here/expected.yaml" "$row" --scale "$SCALE" \
        --info "$run/info.json" --score "$run/score.json" \
        --gpus "$GPUS" --tflops "${TFLOPS:-9.5}" --json "$run/card.json"
    [ -n "$DRY_RUN" ] || cat "$run/card.md"
}

# The rows to run.
rows() { # data|base|big|all
    case $1 in
    data) ;;
    base | big) echo "$1" ;;
    all) echo base big ;;
    *) fail 2 "there is no row '$1' in this table" "choose data, base, big or all" ;;
    esac
}

#!/usr/bin/env bash
# Table 2, English to German: BLEU on newstest2014 of the base and the big Transformer.
#
#     recipes/table2_wmt14_en_de/run.sh [data|base|big|all]           default: all
#
# SCALE=laptop runs the same steps on Multi30k (MULTI30K=FOLDER) with a model half as wide, in an hour
# on two cores; SCALE=rehearsal in a minute; --dry-run only prints them. Your own text in place of
# the download: SRC= TGT= DEV_SRC= DEV_TGT= TEST_SRC= TEST_TGT=. Or BUNDLE=wmt16_en_de.tar.gz, the
# corpus in 32,000 byte pairs that most reproductions of the paper have used; its results are in
# WORK/bundle. TFLOPS= is what one of your GPUs sustains, for the cost as the paper counts it.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
target=de
[ -z "${BUNDLE:-}" ] || WORK+=/bundle
# shellcheck source=recipes/wmt14.sh
. "$here/../wmt14.sh"
wanted=$(rows "${1:-all}")
vocabulary=$(at_scale 37000 500 4000)


if [ -n "${BUNDLE:-}" ]; then
    # Its pieces are the words of our vocabulary: some 36,500, all of them.
    vocabulary=$(at_scale 40000 4000)
    unpack() { tar -xzOf "$BUNDLE" --wildcards "*$1"; } # NAME
    # shellcheck disable=SC2317  # called by name
    join_pieces() { sed 's/@@ //g; s/@@$//' "$1"; }
    for side in en de; do
        capture "unpack training text, $side" "$text/train.$side" unpack "train.tok.clean.bpe.32000.$side"
        capture "unpack newstest2013, $side" "$text/dev.$side" unpack "newstest2013.tok.bpe.32000.$side"
        capture "unpack newstest2014, $side" "$text/test.$side" unpack "newstest2014.tok.bpe.32000.$side"
    done
    capture "Moses tokens of the reference" "$text/test.tok.de" join_pieces "$text/test.de"
    DEV_SRC=$text/dev.en DEV_TGT=$text/dev.de TEST_SRC=$text/test.en TEST_TGT=$text/test.tok.de
    # shellcheck disable=SC2034  # for reproduce
    to_text=join_pieces scoring=(--pretokenized)
    preprocess --subword word
else
    # Section 5.1: about 4.5 million pairs. The paper's code read News Commentary v11, not v9.
    if [ -z "${SRC:-}" ]; then
        download_common
        download http://data.statmt.org/wmt16/translation-task/training-parallel-nc-v11.tgz "$archives/nc-v11.tgz" \
            75178032:cfe8ab047e05043476e498ee765c98e939c7b7d6d294e856344c84476b619d6a
        unpack() { # SIDE
            unpack_common de-en "$1"
            tar -xzOf "$archives/nc-v11.tgz" "training-parallel-nc-v11/news-commentary-v11.de-en.$1"
        }
        SRC=$text/all.en TGT=$text/all.de
        capture "unpack English" "$SRC" unpack en
        capture "unpack German" "$TGT" unpack de
    fi
    step "clean: 1 to 80 words per side" "$text/train.de" clean "$SRC" "$TGT" 80 0 "$text/train.en" "$text/train.de"
    get_test_sets
    # Section 5.1: Moses tokens, one vocabulary of about 37,000 byte pairs for both languages.
    preprocess --pretokenize moses --subword bpe
fi

for row in $wanted; do
    reproduce "$row" "$row"
done

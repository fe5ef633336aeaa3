#!/usr/bin/env bash
# Table 2, English to German: BLEU on newstest2014 of the base and the big Transformer.
#
#     recipes/table2_wmt14_en_de/run.sh [data|base|big|all]           default: all
#
# SCALE=rehearsal runs the same steps in a minute on a CPU; --dry-run only prints them. Your own
# text in place of the download: SRC= TGT= DEV_SRC= DEV_TGT= TEST_SRC= TEST_TGT=.
# TFLOPS= is what one of your GPUs sustains, for the cost as the paper counts it.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
# shellcheck source=recipes/wmt14.sh
. "$here/../wmt14.sh"
wanted=$(rows "${1:-all}")
vocabulary=$(at_scale 37000 500)

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
get_test_sets en-de

# Section 5.1: Moses tokens, one vocabulary of about 37,000 byte pairs for both languages.
preprocess de --pretokenize moses

for row in $wanted; do
    reproduce "$row" "$row" en-de
done

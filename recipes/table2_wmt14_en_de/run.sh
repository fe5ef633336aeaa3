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
    archives=$WORK/archives
    download http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz "$archives/europarl-v7.tgz" \
        657632379:0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7
    download http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz "$archives/commoncrawl.tgz" \
        918311367:c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5
    download http://data.statmt.org/wmt16/translation-task/training-parallel-nc-v11.tgz "$archives/nc-v11.tgz" \
        75178032:cfe8ab047e05043476e498ee765c98e939c7b7d6d294e856344c84476b619d6a
    unpack() { # SIDE
        tar -xzOf "$archives/europarl-v7.tgz" "training/europarl-v7.de-en.$1"
        tar -xzOf "$archives/commoncrawl.tgz" "commoncrawl.de-en.$1"
        tar -xzOf "$archives/nc-v11.tgz" "training-parallel-nc-v11/news-commentary-v11.de-en.$1"
    }
    SRC=$text/all.en TGT=$text/all.de
    capture "unpack English" "$SRC" unpack en
    capture "unpack German" "$TGT" unpack de
fi
step "clean: 1 to 80 words a side" "$text/train.de" clean "$SRC" "$TGT" 80 0 "$text/train.en" "$text/train.de"
get_test_sets en-de

# Section 5.1: Moses tokens, one vocabulary of about 37,000 byte pairs for both languages.
step "preprocess" "$WORK/data/manifest.json" \
    aiayn preprocess "$text/train.en" "$text/train.de" --valid "$DEV_SRC" "$DEV_TGT" -o "$WORK/data" \
    --pretokenize moses --languages en-de --subword bpe --vocab-size "$vocabulary" --shared

for row in $wanted; do
    reproduce "$row" "$row" en-de
done

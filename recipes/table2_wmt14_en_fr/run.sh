#!/usr/bin/env bash
# Table 2, English to French: BLEU on newstest2014 of the base and the big Transformer.
#
#     recipes/table2_wmt14_en_fr/run.sh [data|base|big|all]           default: all
#
# SCALE=rehearsal runs the same steps in a minute on a CPU (on English-German text, which is what
# can be made by rule); --dry-run only prints them. Your own text in place of the download:
# SRC= TGT= DEV_SRC= DEV_TGT= TEST_SRC= TEST_TGT=.
# TFLOPS= is what one of your GPUs sustains, for the cost as the paper counts it.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
target=fr
# shellcheck source=recipes/wmt14.sh
. "$here/../wmt14.sh"
wanted=$(rows "${1:-all}")
vocabulary=$(at_scale 32000 500 4000)

# Section 5.1: 36 million pairs, which is what is left of 40.8 million after cleaning.
if [ -z "${SRC:-}" ]; then
    download_common
    download http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz "$archives/nc-v9.tgz" \
        80418416:cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485
    download http://www.statmt.org/wmt13/training-parallel-un.tgz "$archives/un.tgz" \
        2365634246:29141b5c1eba149a94f7a59d3b1a834b2e47fe0f8758d68dcd77a3d3f497ee47
    download http://www.statmt.org/wmt10/training-giga-fren.tar "$archives/giga-fren.tar" \
        2595102720:3ff8319f6919393520559bfbc7ad6a747ec81b3abc7be9993b338d4b017b4d9a
    unpack() { # SIDE
        unpack_common fr-en "$1"
        tar -xzOf "$archives/nc-v9.tgz" "training/news-commentary-v9.fr-en.$1"
        tar -xzOf "$archives/un.tgz" "un/undoc.2000.fr-en.$1"
        tar -xOf "$archives/giga-fren.tar" "giga-fren.release2.fixed.$1.gz" | gzip -dc
    }
    SRC=$text/all.en TGT=$text/all.fr
    capture "unpack English" "$SRC" unpack en
    capture "unpack French" "$TGT" unpack fr
fi
step "clean: 1 to 175 words per side, ratio up to 1.5" "$text/train.fr" \
    clean "$SRC" "$TGT" 175 1.5 "$text/train.en" "$text/train.fr"
get_test_sets

# Section 5.1: a vocabulary of 32,000 word-pieces, here byte pairs of untokenized text.
preprocess --subword bpe

for row in $wanted; do
    preset=$row
    [ "$row" = base ] || preset=big-en-fr # the big model has dropout 0.1 for French
    reproduce "$row" "$preset"
done

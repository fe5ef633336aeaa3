#!/usr/bin/env bash
# A published model, fairseq's for WMT 2014 English-French: decoding and scoring without training.
#
#     MODEL=FOLDER recipes/published/run.sh
#
# FOLDER is what wmt14.en-fr.joined-dict.transformer.tar.bz2 unpacks to: model.pt, dict.en.txt,
# dict.fr.txt, bpecodes. newstest2014 comes from sacreBLEU, by network or from its cache.
# SCALE=rehearsal runs the same steps on a random model; --dry-run only prints them.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
source=$WORK/newstest2014.en reference=$WORK/newstest2014.fr

if [ "$SCALE" = rehearsal ]; then
    MODEL=$WORK/fairseq
    step "sample: text made by rule" "$WORK/text/test.de" aiayn sample "$WORK/text" --pairs 200 --valid 4 --test 4
    step "a random model in fairseq's layout" "$MODEL/model.pt" \
        python "$here/make_model.py" "$MODEL" "$WORK/text/train.en" "$WORK/text/train.de"
    capture "source" "$source" cat "$WORK/text/test.en"
    capture "reference" "$reference" cat "$WORK/text/test.de"
else
    MODEL=${MODEL:-MODEL}
    [ -n "$DRY_RUN" ] || [ -e "$MODEL/model.pt" ] || fail 3 "$MODEL/model.pt does not exist (MODEL=FOLDER sets the folder)" \
        "get wmt14.en-fr.joined-dict.transformer.tar.bz2 of https://github.com/facebookresearch/fairseq, unpack it, and run MODEL=FOLDER $0"
    capture "source" "$source" sacrebleu -t wmt14/full -l en-fr --echo src
    capture "reference" "$reference" sacrebleu -t wmt14/full -l en-fr --echo ref
fi

step "import" "$WORK/model.pt" aiayn import "$MODEL" --from fairseq -o "$WORK/model.pt"
step "translate" "$WORK/newstest2014.hyp" \
    aiayn generate "$WORK/model.pt" -i "$source" -o "$WORK/newstest2014.hyp" --beam 4 --alpha 0.6
if [ -z "$DRY_RUN" ]; then
    aiayn score "$reference" -i "$WORK/newstest2014.hyp" --paper --no-compound -l en-fr
    [ "$SCALE" = rehearsal ] || aiayn score "$reference" -i "$WORK/newstest2014.hyp" --expect 41.4±0.5
fi

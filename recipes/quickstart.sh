#!/usr/bin/env bash
# From nothing to a translated sentence: makes a corpus, trains a model on it, and shows its score
# and translations. A few minutes on two cores. The same command resumes an interrupted run.
#
#     recipes/quickstart.sh [FOLDER]        default: quickstart
set -euo pipefail
case ${1:-} in -*) sed -n '2,5s/^# \{0,1\}//p' "$0" && exit ;; esac
work=${1:-quickstart}
mkdir -p "$work"

say() { printf '\n==> %s\n' "$*" >&2; }

say "1/6 sample: an English-German corpus made by rule"
[ -e "$work/text/test.de" ] || aiayn sample "$work/text" --pairs 40000 --valid 200 --seed 1

say "2/6 preprocess: subwords and binary shards"
aiayn preprocess "$work/text/train.en" "$work/text/train.de" \
    --valid "$work/text/valid.en" "$work/text/valid.de" \
    --vocab-size 4000 -o "$work/data"

say "3/6 train: the Transformer, tiny, in two processes"
aiayn train "$work/data" -o "$work/run" --preset tiny --device cpu --precision float32 --nproc 2

say "4/6 average: the mean of the last checkpoints"
[ -e "$work/model.pt" ] || aiayn average "$work/run" -o "$work/model.pt" --last 5

say "5/6 generate: beam search on unseen text"
[ -e "$work/test.hyp" ] || aiayn generate "$work/model.pt" -i "$work/text/test.en" -o "$work/test.hyp"

say "6/6 score"
aiayn score "$work/text/test.de" -i "$work/test.hyp"

say "a few translations: source, reference, ours"
few() { head -n 5 "$1"; } # of files: a closed pipe would end the script
paste -d '\n' <(few "$work/text/test.en") <(few "$work/text/test.de") <(few "$work/test.hyp") /dev/null
say "the model is $work/model.pt; try it:"
echo "echo 'My sister bought a blue coat because it was cold.' | aiayn generate $work/model.pt" >&2

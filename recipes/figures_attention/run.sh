#!/usr/bin/env bash
# Figures 3 to 5: what the heads of the encoder's layer 5 attend to, as pages and as figures.
#
#     recipes/figures_attention/run.sh
#
# The model is MODEL=, a run folder or a model file, with English on its source side; else the base
# model of table 2, in WMT14=FOLDER. PAIR4= and PAIR5= are the two heads of figures 4 and 5: look
# at heads.html and choose. TEXT= is English text, one sentence per line, over which the heads are
# counted: where they look, how far, how sharply. SCALE=laptop takes the model of Multi30k
# (MULTI30K=FOLDER), SCALE=rehearsal a small one; --dry-run only prints the steps.
# Prints the names of the figures; a page of the same name is beside each.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
PAIR4=${PAIR4:-5,6}
PAIR5=${PAIR5:-1,2}

if [ -z "${MODEL:-}" ]; then
    WMT14=${WMT14:-$(beside table2_wmt14_en_de)}
    MODEL=$WMT14$scale_folder/base/average.pt
    TEXT=${TEXT:-$(at_scale "$WMT14/text/newstest2014.src" "$WMT14/rehearsal/sample/test.en" "${MULTI30K:-MULTI30K}/test_2016_flickr.en")}
    [ -e "$MODEL" ] ||
        WORK=$WMT14 SCALE=$SCALE DRY_RUN=$DRY_RUN "$here/../table2_wmt14_en_de/run.sh" base >&2
fi

# The last layer but one is the paper's: 5 of 6, and 2 of a laptop's 3.
LAYER=${LAYER:-$(at_scale 5 5 2)}
laws="It is in this spirit that a majority of American governments have passed new laws since 2009 making the registration or voting process more difficult ."
law="The Law will never be perfect , but its application should be just - this is what we are missing , in my opinion ."

draw() { # NAME SENTENCE OPTIONS...
    step "$1" "$WORK/$1.svg" aiayn attend "$MODEL" "$2" --kind encoder --layer "$LAYER" "${@:3}" \
        --html "$WORK/$1.html" --svg "$WORK/$1.svg"
    [ -n "$DRY_RUN" ] || echo "$WORK/$1.svg"
}

draw figure3 "$laws" --token making
draw figure4-top "$law" --head "${PAIR4%,*}"
draw figure4-bottom "$law" --head "$PAIR4" --token its
draw figure5-top "$law" --head "${PAIR5%,*}"
draw figure5-bottom "$law" --head "${PAIR5#*,}"
draw heads "$law" # all of them, to choose from

# The heads, counted over the test set of table 2.
[ -n "${TEXT:-}" ] || fail 2 "there is no text to count over" "TEXT=file.en MODEL=$MODEL $0"
capture "count what each head attends to" "$WORK/heads.md" \
    python "$here/heads.py" "$MODEL" "$TEXT" --svg "$WORK/counted.svg"
[ -n "$DRY_RUN" ] || cat "$WORK/heads.md"

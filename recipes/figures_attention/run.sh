#!/usr/bin/env bash
# Figures 3 to 5: what the heads of the encoder's layer 5 attend to, as pages and as figures.
#
#     recipes/figures_attention/run.sh
#
# The model is MODEL=, a run folder or a model file, with English on its source side; else the base
# model of table 2, in WMT14=FOLDER. PAIR4= and PAIR5= are the two heads of figures 4 and 5: look
# at heads.html and choose. SCALE=rehearsal takes a small model; --dry-run only prints the steps.
# Prints the names of the figures; a page of the same name is beside each.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
PAIR4=${PAIR4:-5,6}
PAIR5=${PAIR5:-1,2}

if [ -z "${MODEL:-}" ]; then
    WMT14=${WMT14:-$(dirname "${WORK%/rehearsal}")/table2_wmt14_en_de}
    MODEL=$WMT14$(at_scale "" /rehearsal)/base/average.pt
    [ -e "$MODEL" ] ||
        WORK=$WMT14 SCALE=$SCALE DRY_RUN=$DRY_RUN "$here/../table2_wmt14_en_de/run.sh" base >&2
fi

laws="It is in this spirit that a majority of American governments have passed new laws since 2009 making the registration or voting process more difficult ."
law="The Law will never be perfect , but its application should be just - this is what we are missing , in my opinion ."

draw() { # NAME SENTENCE OPTIONS...
    step "$1" "$WORK/$1.svg" aiayn attend "$MODEL" "$2" --kind encoder --layer 5 "${@:3}" \
        --html "$WORK/$1.html" --svg "$WORK/$1.svg"
    [ -n "$DRY_RUN" ] || echo "$WORK/$1.svg"
}

draw figure3 "$laws" --token making
draw figure4-top "$law" --head "${PAIR4%,*}"
draw figure4-bottom "$law" --head "$PAIR4" --token its
draw figure5-top "$law" --head "${PAIR5%,*}"
draw figure5-bottom "$law" --head "${PAIR5#*,}"
draw heads "$law" # all of them, to choose from

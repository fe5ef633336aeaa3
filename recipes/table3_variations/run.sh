#!/usr/bin/env bash
# Table 3: variations of the Transformer, English to German, on newstest2013.
#
#     recipes/table3_variations/run.sh [ROW|all]          default: all
#
# ROW: base, A1 to A4 (heads), B1 B2 (d_k), C1 to C7 (size), D1 to D4 (dropout, smoothing),
# E (learned positions), big. SCALE=rehearsal runs the same steps in minutes on a CPU;
# --dry-run only prints them. The data are those of table 2, in WMT14=FOLDER; or DATA=FOLDER,
# which `aiayn preprocess` has made from your own text.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
# shellcheck disable=SC2034  # for the plan
vocabulary=$(at_scale 37000 500)
rows=(base A1 A2 A3 A4 B1 B2 C1 C2 C3 C4 C5 C6 C7 D1 D2 D3 D4 E big)

wanted=("${rows[@]}")
if [ "${1:-all}" != all ]; then
    [[ " ${rows[*]} " = *" $1 "* ]] || fail 2 "there is no row '$1' in table 3" "choose all or one of ${rows[*]}"
    wanted=("$1")
fi

if [ -z "${DATA:-}" ]; then
    WMT14=${WMT14:-$(dirname "${WORK%/rehearsal}")/table2_wmt14_en_de}
    DATA=$WMT14$(at_scale "" /rehearsal)/data
    [ -e "$DATA/manifest.json" ] ||
        WORK=$WMT14 SCALE=$SCALE DRY_RUN=$DRY_RUN "$here/../table2_wmt14_en_de/run.sh" data
fi

# Each row: train, without averaging; the last checkpoint counts. The validation that ends a
# training measures perplexity and BLEU on newstest2013 with beam 4 and alpha 0.6.
for row in "${wanted[@]}"; do
    preset=table3-$row updates=$(at_scale 100000 4)
    case $row in base | big) preset=$row ;; esac
    [ "$row" != big ] || updates=$(at_scale 300000 4)
    run=$WORK/$row
    last=$run/checkpoints/$(printf 'step-%08d.pt' "$updates")
    shrink "$preset"
    step "train $row" "$last" \
        aiayn train "$DATA" -o "$run" --preset "$preset" --nproc "$GPUS" --average 1 "${small[@]}"
    # The paper's own way of scoring; a rehearsal leaves it to that of table 2, to save time.
    [ "$SCALE" = paper ] || continue
    step "translate newstest2013 by $row" "$run/valid.hyp" \
        aiayn generate "$last" -i "$DATA/valid.src" -o "$run/valid.hyp" --beam 4 --alpha 0.6
    capture "score $row" "$run/score.json" \
        aiayn score "$DATA/valid.ref" -i "$run/valid.hyp" -l en-de --paper --json
done

[ -z "$DRY_RUN" ] || exit 0
say "table 3"
aiayn info "${wanted[@]/#/$WORK/}" --json >"$WORK/info.json"
python "$here/table.py" "$here/expected.yaml" "$WORK/info.json" --scale "$SCALE" --svg "$WORK/table3.svg" |
    tee "$WORK/table3.md"

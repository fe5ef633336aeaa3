#!/usr/bin/env bash
# Table 3: variations of the Transformer, English to German, on newstest2013.
#
#     recipes/table3_variations/run.sh [ROW|all|table|record]          default: all
#
# ROW: base, A1 to A4 (heads), B1 B2 (d_k), C1 to C7 (size), D1 to D4 (dropout, smoothing),
# E (learned positions), big. table: only the table of what has been run. record: the same, of what has
# been run here or is in laptop.jsonl, to which it is added. The data are those of table 2, in WMT14=FOLDER; or DATA=FOLDER, which `aiayn preprocess` has made from your own text.
# SEEDS=N trains every row N times. SCALE=laptop trains on Multi30k (MULTI30K=FOLDER), twice, the
# same rows 4 times narrower and with half the layers, but for big; SCALE=rehearsal runs the same
# steps in minutes on a CPU; --dry-run only prints them.
# shellcheck source=recipes/steps.sh
. "$(dirname "$0")/../steps.sh"
# shellcheck disable=SC2034  # for the plan
vocabulary=$(at_scale 37000 500 4000)
record=()
# Equal updates for all rows, and one precision.
# shellcheck disable=SC2034  # for shrink
narrower=4 laptop=(batch.tokens=1500 batch.micro_tokens=1600 optim.factor=0.5 optim.warmup=300
    train.steps=1200 train.save_every=300 train.keep=last=1 train.valid_every=0 train.precision=float32)
SEEDS=${SEEDS:-$(at_scale 1 1 2)}
rows=(base A1 A2 A3 A4 B1 B2 C1 C2 C3 C4 C5 C6 C7 D1 D2 D3 D4 E)
# With a laptop's updates, big would only be the row that has learned least.
[ "$SCALE" = laptop ] || rows+=(big)

case ${1:-all} in
all) wanted=("${rows[@]}") ;;
table) wanted=() ;;
record)
    [ "$SCALE" = laptop ] || fail 2 "results of scale '$SCALE' are not kept in a file" "SCALE=laptop $0 record"
    wanted=() record=(--record "$here/laptop.jsonl" --commit "$(git -C "$here" rev-parse --short HEAD)")
    ;;
*)
    [[ " ${rows[*]} " = *" $1 "* ]] || fail 2 "there is no row '$1' in table 3" "choose all, table, record or one of ${rows[*]}"
    wanted=("$1")
    ;;
esac

if [ -z "${DATA:-}" ]; then
    WMT14=${WMT14:-$(beside table2_wmt14_en_de)}
    DATA=$WMT14$scale_folder/data
    [ -e "$DATA/manifest.json" ] ||
        WORK=$WMT14 SCALE=$SCALE DRY_RUN=$DRY_RUN "$here/../table2_wmt14_en_de/run.sh" data
fi

# Train, without averaging; the last checkpoint counts. The validation that ends a training
# measures perplexity and BLEU on newstest2013 with beam 4 and alpha 0.6.
train_row() { # ROW SEED
    local row=$1 preset=table3-$1 updates run=$WORK/$1
    case $row in base | big) preset=$row ;; esac
    updates=$(at_scale "$([ "$row" = big ] && echo 300000 || echo 100000)" 4 1200)
    [ "$2" = 1 ] || run+=-seed$2
    local last=$run/checkpoints/$(printf 'step-%08d.pt' "$updates")
    shrink "$preset"
    step "train $row, seed $2" "$last" \
        aiayn train "$DATA" -o "$run" --preset "$preset" --nproc "$GPUS" --average 1 \
        "${small[@]}" train.seed="$2"
    # The paper's own way of scoring; smaller scales leave it to table 2, to save time.
    [ "$SCALE" = paper ] || return 0
    step "translate newstest2013 by $row" "$run/valid.hyp" \
        aiayn generate "$last" -i "$DATA/valid.src" -o "$run/valid.hyp" --beam 4 --alpha 0.6
    capture "score $row" "$run/score.json" \
        aiayn score "$DATA/valid.ref" -i "$run/valid.hyp" -l en-de --paper --json
}

write_table() {
    local runs=()
    mapfile -t runs < <(compgen -G "$WORK/*/last.pt")
    ((${#runs[@]})) || fail 3 "no row of table 3 is in $WORK" "run one first: $0 base"
    aiayn info "${runs[@]%/last.pt}" --json >"$WORK/info.json"
    python "$here/table.py" "$here/expected.yaml" "$WORK/info.json" --scale "$SCALE" \
        --seconds "$WORK/seconds.tsv" --svg "$WORK/table3.svg" "${record[@]}" | tee "$WORK/table3.md"
}

# All seeds of base first: they tell how far apart two runs of one row are.
for row in "${wanted[@]}"; do
    [ "$row" != base ] || for seed in $(seq "$SEEDS"); do train_row base "$seed"; done
done
for seed in $(seq "$SEEDS"); do
    for row in "${wanted[@]}"; do [ "$row" = base ] || train_row "$row" "$seed"; done
done

[ -z "$DRY_RUN" ] || exit 0
say "table 3"
write_table

# shellcheck shell=bash
# Sourced by every run.sh:    . "$(dirname "$0")/../steps.sh"
#
# A recipe is a list of steps. A step whose output exists is skipped, so the same command resumes an
# interrupted recipe; a step that fails ends the recipe with its exit code (75: stopped with
# everything saved). Messages go to stderr, the result to stdout.
#
#     SCALE=paper       real data and the paper's settings, on all GPUs (default)
#     SCALE=rehearsal   the same steps on text made by rule, 16 times narrower, on a CPU
#     WORK=FOLDER       where outputs go                            (default: work/<recipe>)
#     GPUS=N            training processes                          (default: all GPUs)
#     --dry-run         print the plan of each step and touch nothing; DRY_RUN=1 does the same
#     --help            what the recipe does
set -euo pipefail

say() { printf '==> %s\n' "$*" >&2; }
fail() { # CODE WHAT FIX
    printf 'error: %s\n  fix: %s\n' "$2" "$3" >&2
    exit "$1"
}

((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)) ||
    fail 2 "this is bash $BASH_VERSION, and 4.4 is needed" "install a newer bash"

here=$(cd "$(dirname "$0")" && pwd) # the recipe's folder
recipe=${here##*/}
SCALE=${SCALE:-paper}
DRY_RUN=${DRY_RUN:-}
WORK=${WORK:-work/$recipe}

arguments=()
for argument in "$@"; do
    case $argument in
    --dry-run) DRY_RUN=1 ;;
    -h | --help) sed -n '/^# shellcheck/d; 2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;;
    -*) fail 2 "there is no option $argument" "see $0 --help" ;;
    *) arguments+=("$argument") ;;
    esac
done
set -- "${arguments[@]}"

case $SCALE in
paper) ;;
rehearsal) WORK+=/rehearsal ;; # its outputs must never be taken for those of the paper's scale
*) fail 2 "SCALE is '$SCALE', and paper or rehearsal is wanted" "SCALE=rehearsal $0" ;;
esac
[ -n "$DRY_RUN" ] || mkdir -p "$WORK"

# Print the first value at the paper's scale, the second at a rehearsal.
at_scale() { if [ "$SCALE" = paper ]; then echo "$1"; else echo "$2"; fi; }

# The number of training processes: one per GPU, and one without GPUs.
count_gpus() {
    local found=0
    if command -v nvidia-smi >/dev/null; then
        found=$(nvidia-smi --list-gpus 2>/dev/null | wc -l) || found=0
    fi
    echo $((found > 0 ? found : 1))
}
# shellcheck disable=SC2034  # for the recipes
GPUS=${GPUS:-$(at_scale "$(count_gpus)" 1)}

# step WHAT OUTPUT COMMAND...      run a command that makes OUTPUT, unless OUTPUT exists.
step() {
    local what=$1 output=$2
    shift 2
    if _skip "$what" "$output" "$@"; then return; fi
    "$@" >&2
    [ -e "$output" ] || fail 1 "$what did not make $output" "see its messages above"
}

# capture WHAT OUTPUT COMMAND...   the same for a command that prints its result.
capture() {
    local what=$1 output=$2
    shift 2
    if _skip "$what" "$output" "$@"; then return; fi
    mkdir -p "${output%/*}"
    "$@" >"$output.part"
    mv "$output.part" "$output"
}

# Announce a step; true if there is nothing to run, because it is done or this is a dry run.
_skip() { # WHAT OUTPUT COMMAND...
    local what=$1 output=$2
    shift 2
    if [ -e "$output" ]; then
        say "$what: $output exists"
    elif [ -n "$DRY_RUN" ]; then
        say "$what: would make $output"
        printf '   %s\n' "$(printf ' %q' "$@")" >&2
        _plan "$@" || exit 1
    else
        say "$what"
        return 1
    fi
}

# The plan of a training run: from its data, or from its settings if there is no data yet.
_plan() {
    [ "$1 $2" = "aiayn train" ] || return 0
    if [ "$SCALE" = paper ] && [ -e "$3/manifest.json" ]; then
        "$@" --dry-run >&2
    else
        python "${BASH_SOURCE[0]%/*}/plan.py" "${vocabulary:-37000}" "${@:4}" >&2
    fi
}

# shrink NAME      set `small` to the settings that make a rehearsal of preset NAME: every width a
# sixteenth, few updates of few tokens. What a row of a table varies still varies. Empty
# at the paper's scale.
shrink() {
    # shellcheck disable=SC2034  # for the recipes
    small=()
    [ "$SCALE" = rehearsal ] || return 0
    local file=$WORK/settings/$1.yaml
    capture "settings of $1, 16 times narrower" "$file" _narrow "$1"
    # shellcheck disable=SC2034
    small=(--config "$file" --steps 4 --save-every 2 --valid-every 0 batch.tokens=400
        batch.micro_tokens=400 optim.warmup=4 optim.factor=0.5 train.log_every=1 --precision float32)
}
_narrow() {
    aiayn info --preset "$1" --yaml |
        awk '/^  (d_model|d_ff|d_k|d_v): / { $0 = "  " $1 " " $2 / 16 } { print }'
}

# download URL FILE CHECK      CHECK: the size in bytes, or bytes:sha256. Resumes a partial file.
download() {
    local url=$1 file=$2 check=$3
    if _skip "download ${file##*/}" "$file" curl -fL --retry 5 -C - -o "$file.part" "$url"; then
        return
    fi
    mkdir -p "${file%/*}"
    local by_hand="download $url by other means, put it at $file and run this again${INSTEAD:+; or $INSTEAD}"
    _whole "$file.part" "$check" || curl -fL --retry 5 -C - -o "$file.part" "$url" ||
        fail 3 "$file could not be downloaded from $url" "run this again; or $by_hand"
    _whole "$file.part" "$check" ||
        fail 3 "$file.part came from $url and does not match $check" "delete it and run this again; or $by_hand"
    mv "$file.part" "$file"
}
_whole() { # FILE BYTES[:SHA256]
    [ -e "$1" ] && [ "$(wc -c <"$1")" -eq "${2%%:*}" ] || return 1
    [ "$2" = "${2#*:}" ] || [ "$(sha256sum "$1")" = "${2#*:}  $1" ]
}

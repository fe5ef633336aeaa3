# shellcheck shell=bash
# Sourced by every run.sh:    . "$(dirname "$0")/../steps.sh"
#
# A recipe is a list of steps. A step whose output exists is skipped, so the same command resumes an
# interrupted recipe; a step that fails ends the recipe with its exit code (75: stopped with
# everything saved). Messages go to stderr, the result to stdout.
#
#     SCALE=paper       real data and the paper's settings, on all GPUs (default)
#     SCALE=laptop      real text that is small, small models: hours on two cores (MULTI30K=FOLDER)
#     SCALE=rehearsal   the same steps on text made by rule, 16 times narrower, on a CPU
#     WORK=FOLDER       where outputs go                            (default: work/<recipe>)
#     GPUS=N            training processes     (default: all GPUs; of a laptop 2, or its one core)
#     JOBS=N            steps at once, where a recipe has some that do not need one another
#                       (default: one for each core; with GPUs 1)
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

# Outputs of one scale must never be taken for those of another.
case $SCALE in
paper) scale_folder="" ;;
laptop | rehearsal) scale_folder=/$SCALE ;;
*) fail 2 "SCALE is '$SCALE', and paper, laptop or rehearsal is wanted" "SCALE=rehearsal $0" ;;
esac
WORK+=$scale_folder
[ -n "$DRY_RUN" ] || mkdir -p "$WORK"

# at_scale PAPER REHEARSAL [LAPTOP]      print the value of this scale; a laptop's is the paper's
# unless there is one.
at_scale() {
    case $SCALE in
    paper) echo "$1" ;;
    laptop) echo "${3-$1}" ;;
    rehearsal) echo "$2" ;;
    esac
}
# The folder of another recipe at this scale.
beside() { echo "$(dirname "${WORK%"$scale_folder"}")/$1"; }

# The number of training processes: one per GPU; without GPUs, the number given.
count_gpus() { # WITHOUT
    local found=0
    if command -v nvidia-smi >/dev/null; then
        found=$(nvidia-smi --list-gpus 2>/dev/null | wc -l) || found=0
    fi
    echo $((found > 0 ? found : $1))
}
# Small updates have few pieces, and more processes than that are refused.
at_most() { # LIMIT NUMBER
    echo $(($2 < $1 ? $2 : $1))
}
# nproc would count the threads that OMP_NUM_THREADS allows.
cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || echo 1)
# shellcheck disable=SC2034  # for the recipes
GPUS=${GPUS:-$(at_scale "$(count_gpus 1)" 1 "$(at_most 2 "$(count_gpus "$cores")")")}
JOBS=${JOBS:-$([ "$(count_gpus 0)" -gt 0 ] && echo 1 || echo "$cores")}

# What a results card says of the hardware; TFLOPS= is what a GPU sustains that the card does not know.
hardware() {
    local gpu=""
    if command -v nvidia-smi >/dev/null; then
        gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1) || gpu=""
    fi
    printf '%s\n' --gpus "$GPUS" --gpu "$gpu" ${TFLOPS:+--tflops "$TFLOPS"}
}

# step WHAT OUTPUT COMMAND...      run a command that makes OUTPUT, unless OUTPUT exists. Its seconds,
# by the clock and of processors, are added to seconds.tsv: a step that was resumed has several lines.
step() {
    local what=$1 output=$2
    shift 2
    if _skip "$what" "$output" "$@"; then return; fi
    local TIMEFORMAT=$what$'\t%R\t%U'
    { time "$@" >&3 2>&3; } 3>&2 2>>"$WORK/seconds.tsv"
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

# at_once FUNCTION ARGUMENTS...      run FUNCTION with each of the ARGUMENTS, which are split into words,
# $JOBS of them at once. On a CPU each has its share of the cores: small models learn about 1.6 times as
# fast side by side, with a thread each, as one after the other. Messages go to $WORK/ARGUMENTS.log.
# A signal stops them all, with everything saved.
at_once() {
    local function=$1 words number code=0 jobs logs=() pids=()
    shift
    jobs=$(at_most "$JOBS" $#)
    if [ "$jobs" -gt 1 ]; then
        trap 'stop 130 "${pids[@]}"' INT
        trap 'stop 75 "${pids[@]}"' TERM HUP
    fi
    for words; do
        if [ "$jobs" -le 1 ] || [ -n "$DRY_RUN" ]; then
            # shellcheck disable=SC2086  # words
            "$function" $words
            continue
        fi
        while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do sleep 1; done
        logs+=("$WORK/${words// /-}.log")
        say "$words: see ${logs[-1]}"
        set -m # a process group each, so that a signal reaches the command, too
        (
            trap : TERM # not before the command, which saves
            trap 'code=$? && [ "$code" = 0 ] || say "$words: ended with exit code $code" 2>&3' EXIT
            export GPUS=1 OMP_NUM_THREADS=$((cores > jobs ? cores / jobs : 1))
            # shellcheck disable=SC2086  # words
            "$function" $words
        ) 3>&2 >"${logs[-1]}" 2>&1 &
        pids+=($!)
        set +m
    done
    for number in "${!pids[@]}"; do
        wait "${pids[number]}" || { code=$? && tail -n 5 "${logs[number]}" >&2; }
    done
    trap - INT TERM HUP
    return "$code"
}

# Stop process groups, wait for them, and exit with a code.
stop() { # CODE GROUP...
    local code=$1 group
    trap '' INT TERM HUP
    shift
    say "stopping; the same command resumes"
    for group; do kill -TERM -- "-$group" 2>/dev/null || true; done
    wait
    exit "$code"
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
    if [ "$SCALE" != rehearsal ] && [ -e "$3/manifest.json" ]; then
        "$@" --dry-run >&2
    else
        python "${BASH_SOURCE[0]%/*}/plan.py" "${vocabulary:-37000}" "${@:4}" >&2
    fi
}

# shrink NAME      set `small` to the settings that make preset NAME fit the scale. Every width is
# divided by the same number, so what a row of a table varies still varies. A rehearsal: by 16, and
# few updates of few tokens. A laptop: by `narrower`, half the layers, and the settings `laptop`, both
# from the recipe. Empty at the paper's scale.
shrink() {
    # shellcheck disable=SC2034  # for the recipes
    small=()
    # shellcheck disable=SC2034,SC2154  # narrower, laptop: from the recipe
    case $SCALE in
    laptop)
        mapfile -t small < <(_narrow "$1" "$narrower" 2)
        small+=("${laptop[@]}")
        ;;
    rehearsal)
        mapfile -t small < <(_narrow "$1" 16 1)
        small+=(--steps 4 --save-every 2 --valid-every 0 batch.tokens=400 batch.micro_tokens=400
            optim.warmup=4 optim.factor=0.5 train.log_every=1 --precision float32)
        ;;
    esac
}
_narrow() { # PRESET WIDTHS LAYERS
    aiayn info --preset "$1" --yaml | awk -v widths="$2" -v layers="$3" '
        /^  (d_model|d_ff|d_k|d_v): / { print "model." substr($1, 1, length($1) - 1) "=" $2 / widths }
        /^  layers: / { print "model.layers=" $2 / layers }'
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

"""The test sets that sacreBLEU knows by name, from its cache or from the network."""

import difflib
from pathlib import Path

from sacrebleu import DATASETS, SACREBLEU_DIR, get_reference_files

from aiayn.errors import DataError, UsageError


def reference_files(test_set: str, languages: str) -> list[Path]:
    """Return the reference files of a test set, downloaded where they are not here yet."""
    if test_set not in DATASETS:
        near = difflib.get_close_matches(test_set, DATASETS, n=3, cutoff=0.4)
        raise UsageError(
            f"sacreBLEU has no test set {test_set}",
            fix=f"did you mean {', '.join(near)}?" if near else "see: sacrebleu --list",
        )
    pairs = sorted(DATASETS[test_set].langpairs)
    if languages not in pairs:
        found = f"has no pair {languages}" if languages else "needs a language pair"
        raise UsageError(
            f"test set {test_set} {found}", fix=f"pass -l with one of: {', '.join(pairs)}"
        )
    try:
        return [Path(file) for file in get_reference_files(test_set, languages)]
    except (OSError, SystemExit) as problem:
        # sacreBLEU leaves by SystemExit when a checksum or a certificate is wrong.
        raise DataError(
            f"test set {test_set} is not in {SACREBLEU_DIR} and did not download: {problem}",
            fix="where there is a network, run"
            f" `sacrebleu -t {test_set} -l {languages} --echo ref > ref.txt`,"
            " and give ref.txt as REF here",
        ) from None

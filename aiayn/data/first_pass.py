"""The first pass over the text: check it, count it, and learn the vocabulary from a sample."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path

from aiayn import console
from aiayn.data.case_markup import MARK, without_capitals
from aiayn.data.codec import Codec
from aiayn.data.duplicates import find_duplicates
from aiayn.data.folder import UNFINISHED_FOLDER, VOCABULARY_FOLDER
from aiayn.data.inputs import PAIRS_PER_BLOCK, Input, read_blocks, with_alignments
from aiayn.data.manifest import SplitName
from aiayn.data.reservoir import Reservoir
from aiayn.data.settings import TAG, Preparation, Settings, Subword
from aiayn.data.trees import clean, read_trees, tag_inventory
from aiayn.data.unfinished import DUPLICATES_FILE, Job, State
from aiayn.data.vocabulary import Vocabulary
from aiayn.data.workers import count_cores, map_in_order
from aiayn.errors import counted

# Starting another process takes about as long as Moses needs for so many lines.
LINES_PER_WORKER = 20_000

Inputs = Mapping[SplitName, Sequence[Input]]
PairSample = list[tuple[str, str]]


def first_pass(
    inputs: Inputs,
    output: Path,
    job: Job,
    *,
    codec: Codec | None,
    alignments: Path | None,
    workers: int | None,
) -> State:
    """Check and count all text, and save the codec: the one given, or a new one."""
    settings = job.settings
    (output / UNFINISHED_FOLDER).mkdir()
    pairs, sample = _check(inputs, output, settings, alignments)
    if codec is None:
        tags = _find_tags(inputs["train"]) if settings.task == "parsing" else ""
        codec = _learn(sample, settings, tags=tags, workers=workers)
    codec.save(output / VOCABULARY_FOLDER)
    state = State(job=job, pairs=pairs)
    # Last, because it says that the pass is done.
    state.save(output)
    return state


def _check(
    inputs: Inputs, output: Path, settings: Settings, alignments: Path | None
) -> tuple[dict[SplitName, int], PairSample]:
    """Read all text; return the pairs of each split, and training pairs to learn from.

    What is not text raises a DataError. If duplicates are to be dropped, they are found here.
    """
    sample = Reservoir[tuple[str, str]](settings.sample_lines // 2, seed=settings.seed)
    pairs = dict.fromkeys(inputs, 0)
    with ExitStack() as stack:
        step = stack.enter_context(console.progress("checking", total=None, unit="pairs"))
        path = output / DUPLICATES_FILE
        finder = settings.dedup and stack.enter_context(find_duplicates(path))
        for split, each in inputs.items():
            blocks = read_blocks(each)
            if alignments and split == "train":
                blocks = with_alignments(blocks, alignments)  # which counts its lines
            for block in blocks:
                pairs[split] += block.pairs
                if split == "train":
                    if sample.size:  # none, if a vocabulary is used again
                        sample.offer(block.pairs, block.text_pairs)
                    if finder:
                        finder.add(block)
                step(block.pairs)
    return pairs, sample.taken


def _find_tags(treebanks: Iterable[Input]) -> str:
    """Return the symbols that stand for words in these trees, with spaces between them."""
    paths = (path for each in treebanks for path in each.files)
    trees = (clean(tree) for path in paths for tree in read_trees(path))
    return " ".join(sorted(tag_inventory(tree for tree in trees if tree)))


def _learn(sample: PairSample, settings: Settings, *, tags: str, workers: int | None) -> Codec:
    """Learn one vocabulary for both sides, or one for each, from a sample of pairs."""
    codec = settings.codec_settings(tags)
    # Tags are pieces already, and nothing is to be learned from them.
    untagged = [TAG.sub("", source, count=1) for source, _ in sample] if settings.tag else None
    plain = untagged or [source for source, _ in sample]
    sources = _prepared(plain, codec.source_preparation, workers)
    targets = _prepared([target for _, target in sample], codec.target_preparation, workers)
    if settings.shared:
        # As many lines of each side, so neither dominates what is learned.
        lines = chain(sources, targets)
        both = _learn_one(lines, 2 * len(sample), codec.subword, settings)
        return Codec(both, both, codec)
    return Codec(
        _learn_one(sources, len(sample), codec.subword, settings),
        _learn_one(targets, len(sample), codec.target_subword, replace(settings, tag="")),
        codec,
    )


def _prepared(lines: Sequence[str], prepare: Preparation, workers: int | None) -> Iterator[str]:
    """Yield lines as the subwords will see them; only Moses is worth several processes."""
    step = PAIRS_PER_BLOCK
    # Blocks, because one line is too little work to send to another process.
    blocks = (lines[start : start + step] for start in range(0, len(lines), step))
    if prepare.pretokenize == "none":
        workers = 1
    workers = workers or min(count_cores(), 1 + len(lines) // LINES_PER_WORKER)
    return chain.from_iterable(map_in_order(prepare, blocks, workers=workers))


def _learn_one(
    lines: Iterable[str], count: int, kind: Subword, settings: Settings
) -> Vocabulary:
    size = settings.vocab_size
    console.say(f"learning at most {size:,} {kind} units from {counted(count, 'lines')}")
    start = time.monotonic()
    whole = settings.tags
    if settings.case_markup:
        lines, whole = map(without_capitals, lines), [*whole, MARK]
    vocabulary = Vocabulary.train(lines, kind=kind, size=size, whole=whole)
    seconds = time.monotonic() - start
    console.say(f"learned {len(vocabulary):,} {kind} units in {seconds:.1f} s")
    return vocabulary

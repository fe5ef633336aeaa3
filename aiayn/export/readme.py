"""The README of an exported folder, with Python that translates one sentence."""

from collections.abc import Sequence

from aiayn import __version__
from aiayn.data.settings import CodecSettings

README = """\
# A translation model for {toolkit}

Written by aiayn {version} as {form}. In this folder, after
`pip install {packages}`:

```python
{code}
```

The length penalty of {toolkit} is |Y|^length_penalty, and ours is ((5 + |Y|) / 6)^alpha: the
same number is not the same penalty. A sentence has at most {positions:,} tokens.{notes}
`vocab/` holds the vocabulary and the settings that text was prepared with, as `aiayn preprocess
--vocab-from` reads them.
"""


def readme(
    settings: CodecSettings,
    *,
    toolkit: str,
    form: str,
    packages: Sequence[str],
    setup: Sequence[Sequence[str]],
    translate: Sequence[str],
    positions: int,
    notes: str = "",
) -> str:
    """Return a README whose Python prepares text as the settings say.

    Args:
        settings: How text was prepared for training.
        toolkit: Its name.
        form: What was written.
        packages: What the Python needs.
        setup: Lines of Python that import, and lines that load the model.
        translate: Lines that replace the variable `text` by its translation.
        positions: The longest sentence.
        notes: What else a user should know.
    """
    imports, before, after = list(setup[0]), ["text = 'one sentence'"], ["print(text)"]
    if settings.pretokenize == "moses":
        packages = [*packages, "sacremoses"]
        imports.append("from sacremoses import MosesDetokenizer, MosesTokenizer")
        source, target = settings.source_language, settings.target_language
        before.append(f"text = MosesTokenizer('{source}').tokenize(text, return_str=True)")
        after.insert(0, f"text = MosesDetokenizer('{target}').detokenize(text.split(' '))")
    if settings.lowercase:
        before.append("text = text.lower()")
    code = [*imports, "", *setup[1], "", *before, *translate, *after]
    return README.format(
        toolkit=toolkit,
        version=__version__,
        form=form,
        packages=" ".join(packages),
        code="\n".join(code),
        positions=positions,
        notes=notes,
    )

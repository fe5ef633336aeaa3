"""The README of an exported folder, with Python that translates one sentence."""

from collections.abc import Sequence

from aiayn import __version__
from aiayn.data.case_markup import MARK
from aiayn.data.codec import Codec

README = """\
# A translation model for {toolkit}

Written by aiayn {version} as {form}. In this folder, after
`pip install {packages}`:

```python
{code}
```

The length penalty of {toolkit} is |Y|^length_penalty, and ours is ((5 + |Y|) / 6)^alpha: the
same number is not the same penalty. {notes}
`vocab/` holds the vocabulary and the settings that text was prepared with, as `aiayn preprocess
--vocab-from` reads them.
"""


def readme(
    codec: Codec,
    *,
    toolkit: str,
    form: str,
    packages: Sequence[str],
    imports: Sequence[str],
    load: Sequence[str],
    translate: Sequence[str],
    notes: str,
) -> str:
    """Return a README whose Python prepares text as the settings say.

    `imports`, `load` and `translate` are its lines, of which the last replace the variable
    `text` by its translation.
    """
    settings = codec.settings
    before, after = ["text = 'one sentence'"], ["print(text)"]
    if settings.pretokenize != "none":
        hyphens = ", aggressive_dash_splits=True" if settings.pretokenize == "moses-a" else ""
        packages = [*packages, "sacremoses"]
        imports = [*imports, "from sacremoses import MosesDetokenizer, MosesTokenizer"]
        source, target = settings.source_language, settings.target_language
        how = f"return_str=True, escape={settings.escapes}{hyphens}"
        before.append(f"text = MosesTokenizer('{source}').tokenize(text, {how})")
        words = f"text.split(' '), unescape={settings.escapes}"
        after.insert(0, f"text = MosesDetokenizer('{target}').detokenize({words})")
    if settings.lowercase:
        before.append("text = text.lower()")
    if settings.case_markup:
        marked = f"w.lower() + '{MARK}' if w.isupper() and sum(map(str.isupper, w)) > 1 else w"
        before.append(
            "# A mark after words in capitals; aiayn looks for their usual case, too."
        )
        before.append(f"text = ' '.join({marked} for w in text.split(' '))")
        restored = f"w[:-1].upper() if w.endswith('{MARK}') else w"
        after.insert(0, f"text = ' '.join({restored} for w in text.split(' '))")
    if tags := codec.source.tags():
        before.append(
            f"text = '{tags[0]} ' + text  # the language to translate to: {' '.join(tags)}"
        )
    code = [*imports, "", *load, "", *before, *translate, *after]
    return README.format(
        toolkit=toolkit,
        version=__version__,
        form=form,
        packages=" ".join(packages),
        code="\n".join(code),
        notes=notes,
    )

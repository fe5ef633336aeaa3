"""Translations over HTTP: LibreTranslate's interface, and what the page at `/` needs beyond it.

Bodies are JSON objects, or forms for LibreTranslate's older clients. An answer with an error
has its HTTP status and `{"error": "a sentence"}`. Where the server has API keys, `/translate`
and `/attention` want one as `api_key` in the body or as `Authorization: Bearer KEY`.

GET /            The page.
GET /languages   [{"code": "en", "name": "English", "targets": ["de"]}, ...]
GET /health      {"status": "ok"}
GET /metrics     Counters in the text format of Prometheus.
GET /frontend/settings   What LibreTranslate's clients ask for: limits, whether there are keys.

POST /translate  {"q": "text" or ["text", ...], "source": "en", "target": "de"}
    and, where wanted, "format": "text" (no other), "alternatives": 0 to 10, "scores": true,
    "alignments": true. The source may be "auto" where one language only is translated to the
    target: nothing is detected. Answers with, for one text,

    "translatedText": "text",
    "alternatives":   ["text", ...], other translations, the best first, when asked for;
    "scores":         [-0.3, ...], that of the translation, then those of the alternatives;
    "alignments":     {"source": ["A", "dog"], "target": ["Hund"], "pairs": [[1, 0]]},
                      words of the text and of its translation, and pairs of indices into them;
    "detectedLanguage": {"confidence": 0.0, "language": "en"}, where the source was "auto".

    For a list of texts, translatedText, alternatives, scores and alignments are lists with one
    such value for each text. Each line of a text is translated by itself, and the translations
    are joined by line feeds again, as alternatives are. Such a text has the sum of the scores
    of its lines, and the words of all lines in one list.

POST /attention  {"q": "text", "source": "en", "target": "de", "translation": "text" (optional)}
    Answers with the page of `aiayn attend --html` (text/html), for one sentence.

400 a request that does not fit; 403 an API key is wrong or missing; 404, 405 no such address or
method; 408 a body that does not arrive; 411 a body without a length; 413 a body or a text that
is too large; 431 long headers; 500 an error of the server; 503 too much to do, with
Retry-After; 504 a translation that takes too long.
"""

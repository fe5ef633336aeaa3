"""The page of `aiayn serve`, in a real browser where there is one."""

import json
import time

import pytest
from browser import ENTER, ESCAPE, TAB
from test_serve import serving

SECONDS = 30
"""For anything to appear on the page."""

HOME, END = "\ue011", "\ue010"
ARABIC = "\u0627\u0644\u0642\u0637\u0629"
IMAGE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def served(browser, trained):
    """A server of the toy language, both ways."""
    with serving(f"en-de={trained}", f"de-en={trained}", "--threads", 1) as served:
        yield served


@pytest.fixture
def page(browser, served):
    """The page, freshly loaded; it complained of nothing and asked no other server."""
    address = f"http://127.0.0.1:{served.port}/"
    browser.open(address)
    wait(browser, "languages.length")
    browser.run("sessionStorage.clear()")
    yield browser
    assert browser.console() == []
    asked = browser.requests(address)
    assert asked and all(request.startswith((address, "data:")) for request in asked)


def wait(page, condition):
    """Wait until an expression in the page is true."""
    limit = time.monotonic() + SECONDS
    while not page.run(f"Boolean({condition})"):
        assert time.monotonic() < limit, condition
        time.sleep(0.03)


def type_in(page, *keys):
    page.point("#source", clicks=1)
    page.press(*keys)


def translate(page, *keys):
    """Type, and wait for the translation."""
    type_in(page, *keys)
    wait(page, "target.ariaBusy === 'false'")


def shown(page, name):
    return page.run(f"find('{name}').value ?? find('{name}').textContent")


def translation(served, text):
    return served.translate(q=text)["translatedText"]


def point_at_word(page, side, number):
    """Move the pointer to a word of the first line, on the left (0) or on the right (1)."""
    page.point_at(f"rangeOf({{ side: {side}, line: 0, number: {number} }})")


def threads(page):
    """How many pairs of words are connected."""
    return page.run("document.querySelectorAll('#marks path').length")


def intercept(page, answer):
    """Let an expression of JavaScript answer the next request."""
    page.run(
        "(() => { const honest = fetch; window.fetch = () => "
        f"{{ window.fetch = honest; return Promise.resolve({answer}); }} }})()"
    )


def refusal(status, message, headers=""):
    body = json.dumps(json.dumps({"error": message}))
    return f"new Response({body}, {{ status: {status}, headers: {{ {headers} }} }})"


def test_what_is_typed_is_translated_line_by_line(page, served):
    translate(page, *"ba di ko", ENTER, ENTER, *"ge")
    assert shown(page, "target") == translation(served, "ba di ko\n\nge")
    page.press(*" du")
    wait(page, "target.ariaBusy === 'false'")
    assert shown(page, "target").split("\n")[2] == translation(served, "ge du")
    page.point("#clear", clicks=1)
    assert shown(page, "target") == ""


def test_the_translation_is_announced_and_can_be_copied(page):
    translate(page, *"ba di")
    wait(page, "find('spoken').textContent === target.value")
    page.point("#copy", clicks=1)
    wait(page, "find('copy').textContent === 'Copied'")


def test_languages_are_swapped_with_their_texts(page, served):
    assert page.run("[source.lang, target.lang]") == ["en", "de"]
    translate(page, *"ba di")
    page.point("#swap", clicks=1)
    wait(page, "target.ariaBusy === 'false'")
    assert page.run("[source.lang, target.lang]") == ["de", "en"]
    assert shown(page, "source") == translation(served, "ba di")


def test_an_answer_that_comes_too_late_is_ignored(page, served):
    late = "new Promise((resolve) => { window.letGo = resolve; })"
    intercept(page, f"{late}.then(() => Response.json({{ translatedText: ['late'] }}))")
    type_in(page, *"ba")
    wait(page, "window.letGo")
    page.press(*" di")
    wait(page, "target.ariaBusy === 'false'")
    page.run("letGo()")
    assert shown(page, "target") == translation(served, "ba di")
    assert shown(page, "reason") == ""


def test_alternatives_come_with_scores_best_first(page):
    translate(page, *"ba di ko")
    page.point("#more", clicks=1)
    wait(page, "!find('alternatives').hidden")
    texts = page.run("[...document.querySelectorAll('#list bdi')].map(e => e.textContent)")
    scores = page.run("[...document.querySelectorAll('#list .score')].map(e => +e.textContent)")
    assert texts[0] == shown(page, "target")
    assert len(set(texts)) == len(scores) == 5
    assert scores == sorted(scores, reverse=True)


def test_pointing_at_a_word_shows_its_counterpart_on_either_side(page):
    translate(page, *"ba di ko")
    point_at_word(page, 0, 1)
    assert shown(page, "said").startswith("\u201c\u2068di\u2069\u201d")
    assert threads(page) == page.run("shown[0].pairs.filter(pair => pair[0] === 1).length")
    point_at_word(page, 1, 0)
    assert "comes from" in shown(page, "said")
    page.point("h1")
    assert (shown(page, "said"), threads(page)) == ("", 0)


def test_the_cursor_shows_the_counterpart_as_the_pointer_does(page):
    translate(page, *"ba di ko")
    page.press(HOME)
    assert shown(page, "said").startswith("\u201c\u2068ba\u2069\u201d")
    page.press(TAB, END)
    assert page.run("document.activeElement.id") == "target"
    assert "comes from" in shown(page, "said")
    page.press(ESCAPE)
    assert shown(page, "said") == ""


def test_the_attention_opens_in_a_frame_that_can_reach_nothing(page):
    translate(page, *"ba di ko")
    page.point("#attend", clicks=1)
    wait(page, "find('dialog').open")
    assert page.run("find('view').sandbox.value") == "allow-scripts"
    assert page.run("find('view').srcdoc.includes('<h1 dir=\"auto\">ba di ko')")
    assert page.run("document.activeElement.id") == "close"
    page.press(ENTER)
    assert page.run("[find('dialog').open, document.activeElement.id]") == [False, "attend"]


def test_a_busy_server_is_asked_again(page, served):
    intercept(page, refusal(503, "too much", "'Retry-After': '1'"))
    type_in(page, *"ba")
    wait(page, "find('reason').textContent === 'The server is busy. Trying again in 1 s.'")
    wait(page, "target.value")
    assert shown(page, "reason") == ""
    assert shown(page, "target") == translation(served, "ba")


def test_a_server_that_is_gone_is_named_and_can_be_tried_again(page):
    intercept(page, "Promise.reject(new TypeError())")
    type_in(page, *"ba")
    wait(page, "find('reason').textContent.startsWith('The server does not answer.')")
    page.point("#retry", clicks=1)
    wait(page, "target.value && !find('reason').textContent")
    assert page.run("document.activeElement.id") == "source"


def test_a_refusal_is_shown_in_the_words_of_the_server(page):
    intercept(page, refusal(413, "the text is too long"))
    type_in(page, *"ba")
    wait(page, "find('reason').textContent === 'The text is too long.'")


def test_a_key_is_asked_for_where_one_is_needed(page):
    intercept(page, refusal(403, "an API key is needed"))
    type_in(page, *"ba")
    wait(page, "!find('key').form.hidden")
    page.point("#key", clicks=1)
    page.press(*"sesame", ENTER)
    wait(page, "target.value")
    assert page.run("sessionStorage.getItem('api_key')") == "sesame"
    assert page.run("find('key').form.hidden")


def test_markup_that_is_typed_stays_text(page, served):
    translate(page, *IMAGE)
    page.point("#more", clicks=1)
    wait(page, "!find('alternatives').hidden")
    assert shown(page, "of") == IMAGE
    assert shown(page, "target") == translation(served, IMAGE)
    assert page.run("document.querySelectorAll('img').length") == 0


def test_text_from_right_to_left_starts_at_the_right(page):
    translate(page, *ARABIC)
    assert page.run("getComputedStyle(source).direction") == "rtl"
    point_at_word(page, 0, 0)
    assert page.run("document.querySelector('rect').x.baseVal.value > source.clientWidth / 2")


def test_a_phone_does_not_scroll_sideways(page):
    size = {"width": 360, "height": 640, "deviceScaleFactor": 1, "mobile": True}
    page.emulate("Emulation.setDeviceMetricsOverride", **size)
    translate(page, *("ba" * 60))
    page.point("#more", clicks=1)
    wait(page, "!find('alternatives').hidden")
    assert page.run("document.documentElement.scrollWidth") <= 360
    page.emulate("Emulation.clearDeviceMetricsOverride")

"""The page, as a user has it before them."""

import json
import re

import pytest

from tests.serve.fakes import FakeTagger
from tests.serve.models import learnt_tagger

pytestmark = pytest.mark.web

TEXT = "A 🎵 web server, no browser"


def names(page):
    return page.locator(".label-name").all_inner_texts()


def write(page, text=TEXT):
    page.fill("#text", text)
    page.wait_for_selector(".label")


def test_labels_appear_as_one_types_with_few_requests(open_page):
    page = open_page(FakeTagger())
    requests = []
    page.on("request", lambda request: requests.append(request.url) if "/api/tag" in request.url else None)
    page.locator("#text").press_sequentially("a small web server", delay=10)
    page.wait_for_selector(".label")
    page.wait_for_timeout(400)
    assert names(page)[0] == "network::server"
    assert len(requests) <= 5
    assert re.fullmatch(r"[\d.]+ ms", page.inner_text("#status"))
    page.fill("#text", "")
    page.wait_for_selector("#empty")
    assert names(page) == []


def test_pointing_at_a_label_marks_its_words_in_the_text(open_page):
    page = open_page(FakeTagger())
    write(page)
    page.hover(".label >> nth=0")
    page.wait_for_selector("#marks mark")
    assert page.locator("#marks mark").all_inner_texts() == ["web", "server"]
    assert page.locator("#marks").inner_text().strip() == TEXT
    assert page.locator(".words li").all_inner_texts() == ["server +2.00", "web +1.50", "bias −1.00"]
    page.hover(".label >> nth=1")
    page.wait_for_selector("#marks mark.against")
    assert page.locator("#marks mark.against").all_inner_texts() == ["server"]
    page.hover("h1")
    page.wait_for_selector("#marks mark", state="detached")


def test_a_real_model_shows_what_it_learnt(open_page):
    page = open_page(learnt_tagger())
    write(page, "🎵 my tiny WEB server")
    page.locator(".label", has_text="web::server").hover()
    page.wait_for_selector("#marks mark")
    assert page.locator("#marks mark.for").all_inner_texts() == ["WEB", "server"]
    page.click("#examples button >> nth=0")
    page.click("#card-open")
    assert "DiSMEC" in page.inner_text("#card-body")


def test_marks_lie_under_their_words(open_page):
    page = open_page(FakeTagger())
    write(
        page, "\n".join(["line of filler text that is long enough to be broken somewhere " * 3] * 20) + "\nweb server"
    )
    page.hover(".label >> nth=0")
    page.wait_for_selector("#marks mark")
    page.evaluate("document.getElementById('text').scrollTop = 1e6")
    page.wait_for_timeout(100)
    tops = page.evaluate("[document.getElementById('text').scrollTop, document.getElementById('marks').scrollTop]")
    assert tops[0] > 0
    assert abs(tops[0] - tops[1]) <= 1


def test_the_slider_hides_what_stays_below_it(open_page):
    page = open_page(FakeTagger(calibrated=True))
    write(page)
    assert len(names(page)) == 5
    assert page.inner_text("#threshold-name") == "Lowest probability"
    page.locator("#threshold").fill("500")
    assert page.inner_text("#threshold-value") == "50.0 %"
    assert names(page) == ["network::server", "web::browser"]
    page.locator("#threshold").fill("1000")
    assert page.inner_text("#empty") == "No label reaches the threshold."


def test_the_model_may_choose_how_many(open_page):
    page = open_page(FakeTagger(calibrated=True))
    write(page)
    with page.expect_response("**/api/tag"):
        page.check("#auto")
    page.wait_for_function("document.querySelectorAll('.label').length === 2")
    assert page.is_disabled("#threshold")


def test_without_calibration_scores_are_shown_and_nothing_is_chosen(open_page):
    page = open_page(FakeTagger())
    write(page)
    assert page.locator(".label-score").first.inner_text() == "2.500"
    assert page.is_hidden("#auto-box")


def test_any_label_can_be_asked_about(open_page):
    page = open_page(FakeTagger())
    write(page, "web music")
    page.locator("#threshold").fill("500")
    page.keyboard.press("Escape")
    page.fill("#query", "mail")
    page.wait_for_selector("#found [role=option]")
    page.press("#query", "Enter")
    page.wait_for_selector(".label.asked:focus")
    assert names(page)[-1] == "mail::client"
    page.wait_for_selector("#why .words")
    assert page.inner_text("#why .words .plain >> nth=0") == "no known word speaks for or against it"


def test_a_search_without_result_says_so(open_page):
    page = open_page(FakeTagger())
    page.fill("#query", "zzz")
    page.wait_for_selector("#found .none")
    assert page.inner_text("#found") == "No label has this in its name."


def test_labels_are_copied_as_json(open_page):
    page = open_page(FakeTagger(), context={"permissions": ["clipboard-read", "clipboard-write"]})
    write(page)
    page.click("#copy")
    page.wait_for_function("async () => (await navigator.clipboard.readText()) !== ''")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert copied["text"] == TEXT
    assert copied["labels"][0] == {"label": "network::server", "score": 2.5, "proba": None, "name": None}


def test_examples_and_model_card_come_from_the_model(open_page):
    page = open_page(FakeTagger())
    page.click("#examples button >> nth=1")
    page.wait_for_selector(".label")
    assert page.input_value("#text") == "a mail client with <b>bold</b> ideas"
    assert names(page)[0] == "mail::client"
    page.click("#card-open")
    assert "1,234" in page.inner_text("#card-body")
    page.click("#card summary")
    assert "<b>" in page.inner_text("#card-body")
    page.keyboard.press("Escape")
    page.wait_for_selector("#card", state="hidden")


def test_the_whole_page_works_from_the_keyboard(open_page):
    page = open_page(FakeTagger())
    page.focus("#text")
    page.keyboard.type("mail or web server")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".label")
    page.focus(".label >> nth=0")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.label") == names(page)[1]
    page.wait_for_selector("#marks mark")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "query"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "text"


def test_hostile_names_stay_text(open_page):
    page = open_page(FakeTagger())
    write(page, "hostile <script>alert(2)</script>")
    assert names(page)[0] == "<img src=x onerror=alert(1)>"
    page.hover(".label >> nth=0")
    page.wait_for_selector("#marks mark")
    assert page.locator("img, #marks script, .labels script, #examples b").count() == 0


def test_the_browser_refuses_foreign_and_inline_scripts(open_page):
    page = open_page(FakeTagger(), may_complain=True)
    page.evaluate(
        """() => { const script = document.createElement("script"); script.textContent = "window.broken = true";
                   document.body.append(script); }"""
    )
    assert page.evaluate("window.broken") is None


def test_errors_are_shown_as_text_and_go_away(open_page):
    tagger = FakeTagger()
    page = open_page(tagger, may_complain=True)
    original, tagger.tag = tagger.tag, lambda *args, **kwargs: (_ for _ in ()).throw(ValueError("<b>no</b> good"))
    page.fill("#text", "web")
    page.wait_for_selector("#error:not([hidden])")
    assert page.inner_text("#error") == "<b>no</b> good"
    tagger.tag = original
    page.fill("#text", "web server")
    page.wait_for_selector("#error", state="hidden")
    page.route("**/api/tag", lambda route: route.abort())
    page.fill("#text", "web browser")
    page.wait_for_selector("#error:not([hidden])")
    assert "cannot be reached" in page.inner_text("#error")


def test_a_busy_service_is_asked_again(open_page):
    page = open_page(FakeTagger(), may_complain=True)
    answers = iter([503])

    def busy_once(route):
        if next(answers, None):
            route.fulfill(status=503, headers={"Retry-After": "1"}, json={"error": "the service is busy"})
        else:
            route.continue_()

    page.route("**/api/tag", busy_once)
    page.fill("#text", "web")
    page.wait_for_selector("#error:not([hidden])")
    page.wait_for_selector(".label")
    assert page.is_hidden("#error")


def test_the_page_asks_for_the_key(open_page):
    page = open_page(FakeTagger(), may_complain=True, api_key="sesame")
    page.wait_for_selector("#key-form:not([hidden])")
    page.fill("#key", "sesame")
    page.press("#key", "Enter")
    page.wait_for_selector("#examples button")
    assert page.is_hidden("#key-form")
    write(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_follow_the_system_and_the_button(open_page, scheme):
    page = open_page(FakeTagger(), context={"color_scheme": scheme})
    is_dark = "getComputedStyle(document.documentElement).colorScheme === 'dark'"
    assert page.evaluate(is_dark) == (scheme == "dark")
    page.click("#theme")
    assert page.evaluate(is_dark) == (scheme != "dark")
    page.reload()
    assert page.evaluate(is_dark) == (scheme != "dark")


def test_at_phone_width_nothing_sticks_out(open_page):
    page = open_page(FakeTagger(), context={"viewport": {"width": 360, "height": 740}, "has_touch": True})
    write(page, "w" * 500 + " hostile web server")
    page.tap(".label >> nth=0")
    page.wait_for_selector(".label .words")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360

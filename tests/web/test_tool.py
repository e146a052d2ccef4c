"""The page as a tool: corrections, texts to work through, files, labels, several models."""

import csv
import io
import json

import pytest

import longtail as lt
from longtail.feedback import FeedbackStore, feedback_path
from longtail.serve.several import ModelSettings, Service
from tests.serve.fakes import FakeTagger
from tests.serve.models import learnt_tagger
from tests.web.conftest import check_with_axe, held_back
from tests.web.test_page import names, write

pytestmark = pytest.mark.web


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "tags.model"
    lt.save(learnt_tagger(), path)
    return path


def stored(model):
    return [row.feedback for row in FeedbackStore(feedback_path(model))]


def test_nothing_can_be_corrected_unless_the_service_takes_corrections(open_page):
    page = open_page(FakeTagger())
    write(page)
    assert page.is_hidden("#corrections")
    assert page.locator(".verdict").count() == 0


def test_labels_are_judged_added_saved_and_taken_back(open_page, model):
    page = open_page(model, feedback=True)
    write(page, "a tiny web server")
    page.click("[aria-label='web::server is right']")
    page.click("[aria-label='mail::client is wrong']")
    page.fill("#add-query", "devel::new")
    page.wait_for_selector("#add-found [data-is-new]")
    page.press("#add-query", "Enter")
    assert page.inner_text("#verdict-line") == "1 right, 1 wrong, 1 added"
    page.fill("#author", "anna")
    page.click("#save")
    page.wait_for_selector("#saved-line:not(:empty)")
    [found] = stored(model)
    assert (found.text, found.accepted, found.rejected) == ("a tiny web server", ("web::server",), ("mail::client",))
    assert (found.added, found.author, found.complete) == (("devel::new",), "anna", False)
    assert found.version
    page.click("#undo")
    page.wait_for_function("() => document.getElementById('saved-line').textContent.includes('taken back')")
    assert stored(model) == []
    assert page.inner_text("#verdict-line") == "1 right, 1 wrong, 1 added"  # what was taken back can be changed
    assert page.is_disabled("#undo")


def test_labels_that_come_before_the_settings_can_be_judged(open_page, model):
    page = open_page(model, feedback=True)
    with held_back(page, "**/api/model"):
        write(page, "a tiny web server")
        assert page.locator(".verdict").count() == 0
    page.click("[aria-label='web::server is right']")
    assert page.inner_text("#verdict-line") == "1 right"


def test_texts_are_worked_through_with_keys_only_inside_the_text_field(open_page, model, tmp_path):
    queue = tmp_path / "new.txt"
    queue.write_text("a new web server\na new mail reader\na music player\n", encoding="utf-8")
    page = open_page(model, feedback=True, queue=queue)
    page.wait_for_selector("#work-list button >> nth=2")
    page.focus("#text")
    seen = []
    for _ in range(2):
        if not seen:
            page.keyboard.press("Alt+n")
        page.wait_for_function("seen => !seen.includes(document.getElementById('text').value)", arg=seen)
        page.wait_for_function("() => document.getElementById('status').textContent !== ''")
        page.wait_for_selector(".label")
        seen.append(page.input_value("#text"))
        page.wait_for_function("() => document.querySelectorAll('.verdict[aria-pressed=true]').length === 0")
        page.keyboard.press("Alt+1")
        page.wait_for_selector(".verdict.accepted[aria-pressed=true]")
        assert page.evaluate("document.activeElement.id") == "text"
        page.keyboard.press("Alt+s")
        page.wait_for_function(
            f"() => document.getElementById('saved-line').textContent.includes('{len(seen)} correction')"
        )
    assert sorted(found.text for found in stored(model)) == sorted(seen)
    assert all(len(found.accepted) == 1 for found in stored(model))
    page.keyboard.press("Alt+z")
    page.wait_for_function("() => document.getElementById('saved-line').textContent.includes('taken back')")
    assert [found.text for found in stored(model)] == seen[:1]


def test_y_and_n_judge_the_label_in_focus(open_page, model):
    page = open_page(model, feedback=True)
    write(page, "a web server")
    page.wait_for_selector(".verdict")  # without them the keys do nothing
    page.focus(".label >> nth=0")
    page.keyboard.press("n")
    page.wait_for_selector(".label:focus .verdict.rejected[aria-pressed=true]")
    page.keyboard.press("y")
    page.wait_for_selector(".label:focus .verdict.accepted[aria-pressed=true]")
    page.keyboard.press("y")
    page.wait_for_selector(".verdict[aria-pressed=true]", state="detached")


def test_a_correction_that_is_not_stored_stays_on_the_page(open_page, model):
    page = open_page(model, feedback=True, may_complain=True)
    page.route("**/api/feedback", lambda route: route.fulfill(status=507, json={"error": "the disk is full"}))
    write(page, "a web server")
    page.click("[aria-label='web::server is right']")
    page.click("#save")
    page.wait_for_selector("#error:not([hidden])")
    assert page.inner_text("#error") == "the disk is full"
    assert page.locator(".verdict.accepted[aria-pressed=true]").count() == 1
    assert page.is_enabled("#save")


def test_a_correction_whose_answer_is_lost_is_stored_once(open_page, model):
    page = open_page(model, feedback=True, may_complain=True)
    n_sent = []

    def lose_the_first(route):
        n_sent.append(route.request.post_data_json["id"])
        if len(n_sent) == 1:
            route.fetch()
            route.abort()
        else:
            route.continue_()

    page.route("**/api/feedback", lose_the_first)
    write(page, "a web server")
    page.click("[aria-label='web::server is right']")
    page.click("#save")
    page.wait_for_selector("#error:not([hidden])")
    page.click("#save")
    page.wait_for_selector("#saved-line:not(:empty)")
    assert len(n_sent) == 2
    assert len(stored(model)) == 1
    page.click("[aria-label='web::server is right']")
    page.click("#save")
    page.wait_for_function("() => document.getElementById('saved-line').textContent.includes('2 corrections')")
    assert len(stored(model)) == 2  # said again on purpose


def test_a_new_version_of_the_model_leaves_the_texts_to_work_through(open_page, model, tmp_path):
    queue = tmp_path / "new.txt"
    queue.write_text("a new web server\na new mail reader\na music player\n", encoding="utf-8")
    page = open_page(model, feedback=True, queue=queue)
    page.wait_for_selector("#work-list button >> nth=2")
    lines = "a mail reader\na web server\n"
    page.set_input_files("#file", {"name": "a.txt", "mimeType": "text/plain", "buffer": lines.encode()})
    page.click("#upload-work:enabled")
    page.click("#work-next")
    page.wait_for_selector(".label")
    version = page.inner_text("#card-body dd:last-child") if page.is_visible("#card-body") else None
    assert version is None
    tagger = lt.load(model)
    tagger.rename_labels({"sound::player": "sound::other"})
    lt.save(tagger, model, overwrite=True)
    for _ in range(100):
        if "sound::other" in page.evaluate("fetch('api/labels?query=sound').then((answer) => answer.text())"):
            break
        page.wait_for_timeout(100)
    with page.expect_response("**/api/examples"):
        page.fill("#text", "a web server again")
    page.wait_for_timeout(200)
    assert page.locator("#work-list button").all_inner_texts() == ["a mail reader", "a web server"]
    assert page.inner_text("#work-list [aria-current]") == "a web server"


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("a.csv", 'id;text\n1;"a ""web""\nserver"\n2;mail\n', ['a "web"\nserver', "mail"]),
        ("a.jsonl", '{"text": "web server"}\n\n{"text": "mail <b>client</b>"}\n', ["web server", "mail <b>client</b>"]),
        ("a.txt", "\ufeffweb server\r\nmusic\r\n", ["web server", "music"]),
    ],
)
def test_a_file_is_tagged_and_downloaded(open_page, name, content, texts):
    page = open_page(FakeTagger())
    page.set_input_files("#file", {"name": name, "mimeType": "text/plain", "buffer": content.encode()})
    page.wait_for_selector("#download-jsonl:enabled")
    assert page.inner_text("#upload-line").startswith("2 texts from ")
    with page.expect_download() as jsonl:
        page.click("#download-jsonl")
    rows = [json.loads(line) for line in jsonl.value.path().read_text(encoding="utf-8").splitlines()]
    assert [row["text"] for row in rows] == texts
    assert all(row["labels"][0]["label"] in FakeTagger().label_names_ for row in rows)
    with page.expect_download() as table:
        page.click("#download-csv")
    assert table.value.suggested_filename == "a-tagged.csv"
    content = table.value.path().read_bytes().decode()
    read = list(csv.DictReader(io.StringIO(content, newline="")))
    assert [row["text"] for row in read] == texts
    page.click("#upload-work")
    assert page.input_value("#text").splitlines() == texts[0].splitlines()


def test_files_that_cannot_be_read_say_why(open_page):
    page = open_page(FakeTagger())
    for name, content, said in (
        ("a.csv", "a,b\n1,2\n", "column called “text”"),
        ("a.csv", 'text\n"never ends', "does not end"),
        ("a.jsonl", "{\n", "Line 1 is not JSON"),
        ("a.jsonl", '{"label": "x"}\n', "Record 1 has no “text”"),
        ("a.txt", "\n", "has no texts"),
    ):
        page.set_input_files("#file", {"name": name, "mimeType": "text/plain", "buffer": content.encode()})
        page.wait_for_function("said => document.getElementById('error').textContent.includes(said)", arg=said)


def test_a_refused_text_costs_the_others_nothing(open_page):
    from longtail.serve import Limits

    page = open_page(FakeTagger(), limits=Limits(max_text_chars=20), may_complain=True)
    content = "web server\n" + "x" * 30 + "\nmail\n"
    page.set_input_files("#file", {"name": "a.txt", "mimeType": "text/plain", "buffer": content.encode()})
    page.wait_for_selector("#download-jsonl:enabled")
    assert page.inner_text("#upload-line").endswith("3 tagged, 1 refused")


def test_labels_are_browsed_by_group_with_counts_and_examples(open_page):
    page = open_page(FakeTagger())
    page.fill("#text", "web server")
    page.click("#browse-open")
    page.fill("#browse-query", "web")
    page.wait_for_function("() => document.querySelectorAll('.browse-label').length === 1")
    assert page.inner_text(".browse-label").split("\n") == ["web::browser", "3 texts"]
    assert page.inner_text("#browse summary") == "web (1)"
    page.click(".browse-labels button")
    page.wait_for_selector(".browse-example")
    assert "a small web server" in page.locator(".browse-example").all_inner_texts()
    page.click("text=Ask about it")
    page.wait_for_selector(".label:focus")
    assert page.evaluate("document.activeElement.dataset.label") == "web::browser"


def test_the_slider_favours_rare_labels(open_page):
    page = open_page(FakeTagger(calibrated=True))
    write(page)
    before = names(page)
    assert page.inner_text("#rare-value") == "most probable first"
    with page.expect_request(lambda request: "api/tag" in request.url and "power:1" in (request.post_data or "")):
        page.locator("#rare").fill("100")
    page.wait_for_function("first => document.querySelector('.label-name').textContent !== first", arg=before[0])
    assert names(page) == before[::-1]
    assert page.inner_text("#rare-value") == "100 % rare"


def test_a_word_leads_to_its_places_in_a_long_text(open_page):
    page = open_page(FakeTagger())
    filler = "line of filler text that is long enough to be broken somewhere\n" * 40
    write(page, f"🎵 web\n{filler}web server")
    page.focus(".label >> nth=0")
    page.wait_for_selector(".words button")
    word = page.locator(".words button", has_text="web")
    place = "[document.getElementById('text').selectionStart, document.getElementById('text').scrollTop]"
    word.click()
    assert page.evaluate(place) == [3, 0]
    page.focus(".label >> nth=0")
    page.wait_for_selector(".words button")
    word.click()
    begin, scrolled = page.evaluate(place)
    assert begin == len("\U0001f3b5 web\n") + 1 + len(filler)
    assert scrolled > 0


def test_a_link_brings_the_text_along(open_page):
    page = open_page(FakeTagger(), path="/#text=a%20web%20server")
    page.wait_for_selector(".label")
    assert page.input_value("#text") == "a web server"
    assert page.is_enabled("#link")


def test_several_models_are_chosen_and_compared(open_page):
    models = {"one": ModelSettings(source=FakeTagger(name="one")), "two": ModelSettings(source=FakeTagger(name="two"))}
    page = open_page(Service(models))
    write(page)
    page.wait_for_selector("#models:not([hidden])")
    page.select_option("#compare", "two")
    page.wait_for_selector("#compared-labels li")
    assert page.locator("#compared-labels li span:first-child").all_inner_texts()[0] == names(page)[0]
    page.select_option("#model", "two")
    page.wait_for_url("**/models/two/#text=*")
    page.wait_for_selector(".label")
    page.click("#card-open")
    page.click("#card summary")
    assert "two" in page.inner_text("#card-body")


def test_models_with_different_keys_are_compared(open_page):
    models = {
        "one": ModelSettings(source=FakeTagger(calibrated=True)),
        "two": ModelSettings(source=FakeTagger(), api_key="sesame"),
    }
    page = open_page(Service(models), may_complain=True)
    write(page)
    page.wait_for_selector("#models:not([hidden])")
    page.select_option("#compare", "two")
    page.fill("#compared-key", "sesame")
    page.click("#compared-key-form button")
    page.wait_for_selector("#compared-labels .label-score")
    assert page.is_hidden("#compared-key-form")
    boxes = [page.locator(place).bounding_box() for place in ("#labels", "#compared")]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_no_violation(open_page, model, tmp_path, scheme, width):
    queue = tmp_path / "new.txt"
    queue.write_text("a new web server\na new mail reader\n", encoding="utf-8")
    context = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
    settings = {name: ModelSettings(source=model, feedback=True, queue=queue) for name in ("one", "two")}
    page = open_page(Service(settings), context=context)
    write(page, "a tiny web server")
    page.click("[aria-label='web::server is right']")
    page.click("[aria-label='mail::client is wrong']")
    page.focus(".label >> nth=0")
    page.wait_for_selector(".words")
    check_with_axe(page)
    for opened in ("#card-open", "#browse-open"):
        page.click(opened)
        check_with_axe(page)
        page.keyboard.press("Escape")
    page.select_option("#compare", "two")
    page.wait_for_selector("#compared-labels li")
    page.set_input_files("#file", {"name": "a.txt", "mimeType": "text/plain", "buffer": b"web server\nmail\n"})
    page.wait_for_selector("#download-jsonl:enabled")
    page.fill("#add-query", "web")
    page.wait_for_selector("#add-found li")
    check_with_axe(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width

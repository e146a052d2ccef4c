"""The page of a model with a vocabulary, and a report, in a real browser."""

import pytest

import longtail as lt
from longtail.feedback import FeedbackStore, feedback_path
from tests.vocabulary.test_names import named_tagger
from tests.web.conftest import check_with_axe, held_back
from tests.web.test_page import names, write

pytestmark = pytest.mark.web


@pytest.fixture
def model(tmp_path):
    lt.save(named_tagger(tmp_path), tmp_path / "m")
    return tmp_path / "m"


def test_labels_are_shown_by_name_in_a_chosen_language(open_page, model):
    page = open_page(model, feedback=True, language="fi")
    write(page, "my kitten")
    assert set(names(page)) == {"eläin", "kissa", "koira"}
    page.select_option("#language", "en")
    page.wait_for_selector(".label-name:text-is('cat')")
    assert set(names(page)) == {"animal", "cat", "dog"}
    page.focus("[data-label=c]")
    page.wait_for_selector("#why strong:text-is('cat')")
    page.click("[aria-label='cat is right']")
    page.click("#save")
    page.wait_for_selector("#saved-line:not(:empty)")
    [row] = FeedbackStore(feedback_path(model))
    assert row.feedback.accepted == ("c",)


def test_labels_that_come_before_the_settings_get_names_in_the_chosen_language(open_page, model):
    page = open_page(model, language="fi")
    page.select_option("#language", "en")
    with held_back(page, "**/api/model"):
        write(page, "my kitten")
        assert set(names(page)) == {"eläin", "kissa", "koira"}
    page.wait_for_selector(".label-name:text-is('cat')")
    assert set(names(page)) == {"animal", "cat", "dog"}


def test_labels_to_add_are_found_by_any_name_and_are_not_new(open_page, model):
    page = open_page(model, feedback=True, language="en")
    write(page, "my kitten")
    for query, shown in (("tomcat", "cat"), ("sheepdog", "sheepdog")):
        page.fill("#add-query", query)
        page.wait_for_selector(f"#add-found li:text-is('{shown}')")
        assert page.locator("#add-found li").all_inner_texts() == [shown]
    page.press("#add-query", "Enter")
    page.wait_for_selector("[data-label=s]")
    assert names(page)[-1] == "sheepdog"
    page.fill("#add-query", "zebra")
    page.wait_for_selector("#add-found [data-is-new]")


def test_the_tree_is_browsed_and_limits_the_proposals(open_page, model):
    page = open_page(model, language="en")
    write(page, "my kitten")
    page.wait_for_selector("#vocabulary-box:not([hidden])")  # before that, labels are browsed as a list
    page.click("#browse-open")
    page.click("#browse summary")
    page.wait_for_selector("#browse .browse-label >> nth=1")
    shown = [text.split("\n") for text in page.locator("#browse .browse-label").all_inner_texts()]
    assert shown == [["animal", "9 texts"], ["cat", "3 texts"]]
    assert page.locator("#browse summary").all_inner_texts() == ["animal (4)", "dog (1)"]
    check_with_axe(page)
    page.click(".browse-label button:text-is('cat')")
    page.click("text=Propose only labels below it")
    page.wait_for_selector("#below-box:not([hidden])")
    page.wait_for_function("() => document.querySelectorAll('.label').length === 1")
    assert names(page) == ["cat"]
    check_with_axe(page)
    page.click("#below-all")
    page.wait_for_function("() => document.querySelectorAll('.label').length === 3")


def test_labels_without_examples_are_proposed_when_asked_for(open_page, model):
    page = open_page(model, language="en")
    write(page, "my sheepdog")
    assert "sheepdog" not in names(page)
    page.check("#unseen")
    page.wait_for_selector("[data-label=s]")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_is_readable_on_a_phone(browser, model, tmp_path, scheme):
    pytest.importorskip("jinja2")
    from longtail import report

    texts = [f"my {word} {i}" for i in range(10) for word in ("kitten", "puppy", "cow")]
    labels = [["c", "a"], ["d", "a"], ["a"]] * 10
    findings = report.examine(
        lt.load(model), texts, labels, name_of=lambda label: f"{label} with a rather long name " * 3
    )
    path = tmp_path / "report.html"
    path.write_text(report.render(findings, title="On a phone", model="m", data="texts"), encoding="utf-8")
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    check_with_axe(page)
    context.close()

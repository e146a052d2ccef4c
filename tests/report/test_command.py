"""longtail report, from model and data files to the page."""

import json

import pytest

import longtail as lt
from longtail.report import examine, render
from tests.cli.test_commands import longtail

TEXTS = ["a web server", "a web browser", "a mail server", "a mail client"] * 5
LABELS = [["web", "server"], ["web"], ["mail", "server"], ["mail", "<b>client</b>"]] * 5


@pytest.fixture(scope="module")
def tagger():
    tagger = lt.Tagger(lt.Popularity(n_jobs=1), lt.TextVectorizer(min_df=1)).fit(TEXTS, LABELS)
    return tagger.calibrate(TEXTS, LABELS)


def test_a_report_is_written_once(tmp_path, tagger):
    lt.save(tagger, tmp_path / "tags.model")
    rows = [{"text": text, "labels": labels} for text, labels in zip(TEXTS, LABELS, strict=True)]
    (tmp_path / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    arguments = ["report", tmp_path / "tags.model", tmp_path / "test.jsonl", "-o", tmp_path / "report.html"]
    assert "report.html" in longtail(*arguments, "--top-k", "2", "--title", "Web & mail").stderr
    html = (tmp_path / "report.html").read_text()
    assert "<h1>Web &amp; mail</h1>" in html
    assert "tags.model on test.jsonl" in html
    assert "&lt;b&gt;client&lt;/b&gt;" in html
    refused = longtail(*arguments, ok=False)
    assert refused.code == 2
    assert "--overwrite" in refused.stderr
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_calibrated_tagger_is_examined_for_reliability(tagger):
    findings = examine(tagger, TEXTS, LABELS, top_k=2)
    # Popularity says the same of every row, and on the rows it was calibrated on that is exactly so.
    assert findings.reliability.ece == pytest.approx(0, abs=1)
    assert findings.reliability.auto.true_per_row == 7 / 4
    assert findings.n_never_predicted == 2
    assert {row.name for row in findings.never_predicted} == {"<b>client</b>", "web"}


def test_unknown_labels_are_counted(tagger):
    findings = examine(tagger, TEXTS[:2], [["web", "nosuch"], []], top_k=2)
    assert findings.n_unknown == 1
    assert findings.n_true == 1


def test_the_report_shows_what_utilities_buy(tagger):
    findings = examine(tagger, TEXTS, LABELS, top_k=2)
    points = {point.title: point for point in findings.utilities}
    assert {"score", "precision", "balanced", "psp", "macro-f1", "coverage", "macro-f1-by-row"} <= points.keys()
    assert points["precision"].precision >= points["psp"].precision
    assert points["coverage"].coverage == max(point.coverage for point in points.values())
    html = render(findings)
    assert "What each utility buys and costs" in html
    assert html.count("<svg ") == 8
    assert "Every label counts the same" in html
    assert "What each utility" not in render(examine(lt.Tagger(lt.Popularity()).fit(TEXTS, LABELS), TEXTS, LABELS))

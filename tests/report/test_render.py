"""The file: self-contained, escaped, the same for the same findings."""

import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import longtail as lt
from longtail.report import examine, render
from longtail.report.labels import LabelFinding
from longtail.report.reliability import AutoChoice, Reliability

HOSTILE = "<script>alert(1)</script><img src=x onerror='alert(2)'>\"&"


@pytest.fixture(scope="module")
def findings():
    rng = np.random.default_rng(0)
    X = rng.random((40, 4), dtype=np.float32)
    Y = (rng.random((40, 6)) < [0.9, 0.5, 0.3, 0.2, 0.1, 0.0]).astype(np.float32)
    found = examine(lt.Popularity(n_jobs=1).fit(X, Y), X, Y, top_k=2, load_seconds=0.5, size_bytes=1000)
    return dataclasses.replace(
        found,
        card={"estimator": HOSTILE, "inner": {HOSTILE: HOSTILE}},
        worst=[LabelFinding(HOSTILE, 1, 1, 0, 0, HOSTILE)],
        reliability=Reliability(10, 1.5, [20.0, 80.0], [25.0, 70.0], [6, 4], AutoChoice(2.0, 2.5, 80.0, 60.0)),
    )


@pytest.fixture(scope="module")
def html(findings):
    return render(findings, title=HOSTILE, model=HOSTILE, data=HOSTILE)


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []
        self.references = []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.references += [value for name, value in attributes if name in ("src", "href", "xlink:href")]


def test_nothing_from_the_data_becomes_markup(html):
    parser = _Tags()
    parser.feed(html)
    assert not {"script", "img", "iframe", "link", "object"} & set(parser.tags)
    assert html.count("&lt;script&gt;") >= 6


def test_nothing_is_fetched_from_elsewhere(html):
    parser = _Tags()
    parser.feed(html)
    assert all(reference.startswith("#") for reference in parser.references)
    assert "default-src 'none'" in html
    assert "@import" not in html
    assert not re.findall(r"url\((?!#)", html)


def test_every_section_and_plot_is_there(html):
    for title in ("Measures", "Where the tail is", "Coverage", "Never predicted", "Over-predicted", "Timing", "Model"):
        assert f">{title}<" in html
    assert html.count("<svg ") == 6
    assert "Expected calibration error 1.50 %" in html
    assert "F1 68.6 %" in html


def test_plots_take_their_colours_from_the_page(html):
    svg = html[html.index("<svg ") : html.rindex("</svg>")]
    assert "var(--first)" in svg
    assert not re.search(r"#0[0-9]0[0-9]0[0-9]", svg)


def test_ids_are_unique_in_the_page(html):
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(|href=")#([^")]+)', html)) <= set(ids)


def test_a_model_without_probabilities_says_so(findings):
    html = render(dataclasses.replace(findings, reliability=None))
    assert "The model is not calibrated" in html
    assert html.count("<svg ") == 5

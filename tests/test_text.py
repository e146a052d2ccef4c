"""The vectorizer against scikit-learn's, its naive twin, to the last bit; and what it does beyond it."""

from __future__ import annotations

import copy
import pickle
import re
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer

from longtail.tagging.normalizer import html_parts
from longtail.tagging.preparation import Preparation
from longtail.tagging.scripts import END_OF_CLASSES
from longtail.tagging.vectorizer import TextVectorizer

TEXTS = [
    "A small web server, with TLS",
    "web-browser: fast & small; the web",
    "",
    "Größe und Straße; ΣΊΣΥΦΟΣ İstanbul 東京 サーバー",
    "mail server mail server MAIL",
    "x",
    "e\u0301te\u0301 naïve 1234 ½ _private __",
]

# Letters that grow, shrink or change with their place when lowered, digits of other scripts, marks, odd blanks.
CHARACTERS = st.one_of(
    st.sampled_from("abAB 12_-.\t\n<>&/;"),
    st.sampled_from("กาสวัスーがｶﾞ的हिन्दीﬁ\u200d\u00adʼn"),
    st.sampled_from("ΣςßİıǅÅé\u0301\u00a0\u2028\u3000東٣²\U0001d7d8😀\x1c\x85"),
)
TEXT = st.one_of(st.text(CHARACTERS, max_size=40), st.text(max_size=30))


def assert_same(found: Any, expected: Any) -> None:
    expected = sp.csr_array(expected)
    expected.sort_indices()
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.data, expected.data)
    assert (found.data.dtype, found.indices.dtype, found.indptr.dtype) == (np.float32, np.int32, np.int32)


def twin(**settings: Any) -> TfidfVectorizer:
    return TfidfVectorizer(dtype=np.float32, sublinear_tf=True, **settings)


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(TEXT, min_size=1, max_size=6),
    others=st.lists(TEXT, max_size=3),
    max_ngram=st.integers(1, 3),
    lowercase=st.booleans(),
    stop_words=st.sampled_from([None, ["ab", "ba"], "english"]),
    min_df=st.integers(1, 2),
)
def test_words_are_those_of_scikit_learn(
    texts: list[str], others: list[str], max_ngram: int, lowercase: bool, stop_words: Any, min_df: int
) -> None:
    expected = twin(ngram_range=(1, max_ngram), lowercase=lowercase, stop_words=stop_words, min_df=min_df)
    ours = TextVectorizer(
        tokenizer="sklearn", max_ngram=max_ngram, lowercase=lowercase, stop_words=stop_words, min_df=min_df
    )
    try:
        expected.fit(texts)
    except ValueError:
        with pytest.raises(ValueError, match="no feature is left"):
            ours.fit(texts)
        return
    ours.fit(texts)
    assert ours.vocabulary_ == list(expected.get_feature_names_out())
    np.testing.assert_array_equal(ours.idf_, expected.idf_)
    assert_same(ours.transform(texts + others), expected.transform(texts + others))


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXT, min_size=1, max_size=5), lengths=st.tuples(st.integers(1, 4), st.integers(0, 3)))
def test_characters_are_those_of_scikit_learn(texts: list[str], lengths: tuple[int, int]) -> None:
    least, most = lengths[0], sum(lengths)
    expected = twin(analyzer="char_wb", ngram_range=(least, most))
    ours = TextVectorizer(tokenizer="sklearn", max_ngram=0, min_chars=least, max_chars=most, min_df=1)
    try:
        expected.fit(texts)
    except ValueError:
        with pytest.raises(ValueError, match="no feature is left"):
            ours.fit(texts)
        return
    ours.fit(texts)
    assert ours.vocabulary_ == list(expected.get_feature_names_out())
    assert_same(ours.transform(texts), expected.transform(texts))


def test_words_and_characters_share_one_row() -> None:
    words, characters = CountVectorizer(), CountVectorizer(analyzer="char_wb", ngram_range=(2, 3))
    counts = sp.hstack([words.fit_transform(TEXTS), characters.fit_transform(TEXTS)]).tocsr().astype(np.float32)
    expected = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    ours = TextVectorizer(tokenizer="sklearn", min_chars=2, max_chars=3, min_df=1).fit(TEXTS)
    assert ours.vocabulary_ == [*words.get_feature_names_out(), *characters.get_feature_names_out()]
    assert_same(ours.transform(TEXTS), expected)


def test_plain_counts_and_plain_rows_are_those_of_scikit_learn() -> None:
    texts = ["web " * 300 + "server", *TEXTS]
    expected = TfidfVectorizer(dtype=np.float32, norm=None, max_df=0.4).fit(texts)
    ours = TextVectorizer(tokenizer="sklearn", sublinear_tf=False, unit_rows=False, min_df=1, max_df=0.4).fit(texts)
    assert_same(ours.transform(texts), expected.transform(texts))


def test_max_features_keeps_the_most_frequent_and_breaks_ties_by_spelling() -> None:
    vectorizer = TextVectorizer(min_df=1, max_features=3).fit(["bb bb aa", "dd cc bb", "dd"])
    assert vectorizer.vocabulary_ == ["aa", "bb", "dd"]


def test_real_descriptions_give_the_bits_of_scikit_learn_with_any_number_of_threads(shared_data: Any) -> None:
    import gzip
    import json

    with gzip.open(shared_data("debtags/debtags_test.jsonl.gz"), "rt") as file:
        texts = [json.loads(line)["text"] for line in file][:3000]
    expected = twin(ngram_range=(1, 2), min_df=2).fit(texts)
    ours = TextVectorizer(tokenizer="sklearn", max_ngram=2).fit(texts)
    for n_jobs in (1, 3):
        assert_same(ours.transform(texts, n_jobs=n_jobs), expected.transform(texts))


def test_no_letter_or_blank_lies_beyond_the_classes() -> None:
    beyond = "".join(map(chr, range(END_OF_CLASSES, sys.maxunicode + 1)))
    assert re.search(r"[\w\s]", beyond) is None


def test_lone_surrogates_are_no_letters() -> None:
    vectorizer = TextVectorizer(min_df=1).fit(["web\ud800server", "mäil"])
    assert vectorizer.vocabulary_ == ["mäil", "server", "web"]
    assert vectorizer.transform(["\udfffweb \ud83d\ude00"]).nnz == 1


def test_locate_finds_words_and_ngrams_in_the_text_as_given() -> None:
    text = "İstanbul's Web, the WEB server"
    vectorizer = TextVectorizer(tokenizer="sklearn", max_ngram=2, min_df=1, stop_words=["the"]).fit([text])
    names = vectorizer.vocabulary_
    located = {
        names[i]: [text[a:b] for a, b in spans] for i, spans in vectorizer.locate(text, range(len(names))).items()
    }
    assert located["web"] == ["Web", "WEB"]
    assert located["web server"] == ["WEB server"]
    assert located["web web"] == ["Web, the WEB"], "a stop word does not part its neighbours"
    assert located["stanbul"] == ["stanbul"], "'İ'.lower() is an i and a mark that is no letter"


@settings(max_examples=60, deadline=None)
@given(text=TEXT, tokenizer=st.sampled_from(["unicode", "sklearn"]), strip=st.booleans())
def test_every_feature_of_a_text_is_located(text: str, tokenizer: str, strip: bool) -> None:
    vectorizer = TextVectorizer(
        tokenizer=tokenizer, max_ngram=2, min_chars=2, max_chars=3, min_df=1, strip_accents=strip, strip_html=strip
    )
    try:
        row = vectorizer.fit([text]).transform([text])
    except ValueError:
        return
    text = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    for spans in vectorizer.locate(text, row.indices).values():
        assert spans
        assert all(0 <= begin <= end <= len(text) for begin, end in spans)


def test_copies_and_pickles_answer_alike() -> None:
    vectorizer = TextVectorizer(min_df=1).fit(TEXTS)
    expected = vectorizer.transform(TEXTS)
    for other in (copy.deepcopy(vectorizer), pickle.loads(pickle.dumps(vectorizer))):
        assert_same(other.transform(TEXTS), expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_df": 0}, "TextVectorizer: min_df must be an int >= 1, got 0"),
        ({"max_ngram": 0}, "max_ngram and max_chars must not both be 0"),
        ({"min_chars": 4, "max_chars": 3}, "max_chars must be 0 or >= min_chars=4, got 3"),
        ({"stop_words": "german"}, "stop_words must be None or one of 'english' or a list of str, got 'german'"),
        ({"max_df": 0.0}, r"max_df must be a number in \(0, 1\]"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextVectorizer(**settings).fit(TEXTS)


def test_transform_before_fit_says_so() -> None:
    with pytest.raises(ValueError, match="not fitted yet"):
        TextVectorizer().transform(["a"])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"idf_": np.ones(2, np.float32)}, "idf_ has 2 values, but there are 3 features"),
        ({"feature_bytes_": np.frombuffer(b"aaaabb", np.uint8)}, "feature 1 is the same as feature 0"),
        ({"feature_bytes_": np.frombuffer(b"aabb", np.uint8)}, "ends at byte 6, but there are 4"),
        ({"feature_ends_": np.array([2, 2, 6])}, "ends must increase from 1, got 2 at 1"),
        ({"feature_ends_": np.array([-1, 2, 6])}, "ends must increase from 1, got -1 at 0"),
        ({"n_words_": 4}, r"n_words must be in \[0, 3\], got 4"),
        ({"feature_bytes_": np.frombuffer(b"aabb\xff\xff", np.uint8)}, "must be UTF-8, invalid start byte at 4"),
    ],
)
def test_a_damaged_vocabulary_is_refused(arrays: dict[str, Any], message: str) -> None:
    state = TextVectorizer(min_df=1).fit(["aa bb cc"])._whole()
    with pytest.raises(ValueError, match=message):
        state.build(state.public | arrays).check_whole()


ASCII = st.text(st.sampled_from("abcABC 12_-.,;<>&\t\n"), max_size=40)


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(ASCII, min_size=1, max_size=6),
    max_ngram=st.integers(0, 3),
    max_chars=st.sampled_from([0, 3, 4]),
    lowercase=st.booleans(),
    stop_words=st.sampled_from([None, ["ab", "ba"], "english"]),
)
def test_for_ascii_both_tokenizers_are_one(
    texts: list[str], max_ngram: int, max_chars: int, lowercase: bool, stop_words: Any
) -> None:
    made = [
        TextVectorizer(
            tokenizer=tokenizer,
            max_ngram=max_ngram or (0 if max_chars else 1),
            max_chars=max_chars,
            min_df=1,
            lowercase=lowercase,
            stop_words=stop_words,
        )
        for tokenizer in ("unicode", "sklearn")
    ]
    try:
        ours, twin_ = (vectorizer.fit(texts) for vectorizer in made)
    except ValueError:
        return
    assert ours.vocabulary_ == twin_.vocabulary_
    assert_same(ours.transform(texts), twin_.transform(texts))


def features(text: str, **settings: Any) -> list[str]:
    return TextVectorizer(min_df=1, **settings).fit([text]).vocabulary_


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("东京大学 Tokyo", ["tokyo", "东", "东京", "京", "京大", "大", "大学", "学"]),
        ("iPhone手机2024年", ["2024", "iphone", "年", "手", "手机", "机"]),
        ("ﾃﾞｰﾀ", ["タ", "デ", "デー", "ー", "ータ"]),  # half-width kana become one letter with their mark
        ("ไทย", ["ทย", "ไท", "ไทย"]),
        ("ไ 7 ๔๕", ["ไ", "๔๕"]),
        ("हिन्दी भाषा", ["भाषा", "हिन्दी"]),
        ("한국어 단어", ["단어", "한국어"]),
        ("e\u0301te\u0301 ÉTÉ", ["été"]),
        ("Straße STRASSE", ["strasse"]),
        ("ΣΊΣΥΦΟΣ σίσυφος", ["σίσυφοσ"]),
        ("İSTANBUL istanbul ISTANBUL ıstanbul", ["istanbul"]),
        ("Hääyöaie HÄÄYÖAIE", ["hääyöaie"]),
        ("ｗｅｂ web Ｗｅｂ", ["web"]),
        ("Donau\u00addampf donaudampf", ["donaudampf"]),
        ("می\u200cخواهم", ["میخواهم"]),
    ],
)
def test_words_of_other_languages(text: str, expected: list[str]) -> None:
    assert features(text) == expected


def test_runs_without_blanks_take_no_part_in_word_ngrams() -> None:
    assert features("web 東 server", max_ngram=2) == ["server", "web", "web server", "東"]
    assert features("東京 web", stop_words=["東", "京"]) == ["web", "東京"]


@settings(max_examples=80, deadline=None)
@given(text=TEXT)
def test_runs_and_words_are_those_of_a_naive_twin(text: str) -> None:
    import unicodedata

    from longtail.tagging.scripts import _IDEOGRAPHIC, _UNSPACED

    def kind(c: str) -> str:
        if not (re.match(r"\w", c) or unicodedata.category(c)[0] == "M"):
            return " "
        for name, ranges in (("i", _IDEOGRAPHIC), ("u", _UNSPACED)):
            if any(first <= ord(c) <= last for first, last in ranges):
                return name
        return "w"

    vectorizer = TextVectorizer(min_df=1)
    prepared = Preparation(vectorizer).prepared([text])[0]
    expected: set[str] = set()
    for name in "iuw":
        blanked = "".join(c if kind(c) == name else " " for c in prepared)
        for run in re.findall(r"[^ ]+", blanked):
            if name == "w":
                expected |= {run} if len(run) > 1 else set()
                continue
            least, most = (1, 2) if name == "i" else (min(2, len(run)), 4)
            expected |= {run[i : i + n] for n in range(least, most + 1) for i in range(len(run) - n + 1)}
    try:
        found = vectorizer.fit([text]).vocabulary_
    except ValueError:
        found = []
    assert found == sorted(expected)


def test_accents_are_stripped_on_request() -> None:
    assert features("Café naïve ŁÓDŹ smørrebrød") == ["café", "naïve", "smørrebrød", "łódź"]
    assert features("Café naïve ŁÓDŹ smørrebrød", strip_accents=True) == ["cafe", "lodz", "naive", "smorrebrod"]
    assert features("ไทย हिन्दी 한국어", strip_accents=True) == features("ไทย हिन्दी 한국어"), (
        "vowel signs are no accents"
    )


HTML = (
    '<p class="x">A <b>we</b>b server &amp; Gr&ouml;&szlig;e</p>'
    "<script>if (a < b) evil()</SCRIPT ><!-- no -->a<br>b &lt;i&gt;"
)


def test_html_is_stripped_on_request() -> None:
    stripped = "".join(part for part, _, _ in html_parts(HTML))
    assert stripped.split() == ["A", "web", "server", "&", "Größe", "a", "b", "<i>"]
    assert features(HTML, strip_html=True) == ["grösse", "server", "web"]
    for text in ("3 < 4 and 5 > 4", "a <!-- never closed", "a <b never closed", "&nosuch; &", "<", "<script>open"):
        assert "".join(part for part, _, _ in html_parts(text)).strip() in (text, "open")


@pytest.mark.parametrize("piece", ["<", "<!--", "<a", "<script>", "<style><", "&amp", "&", "</", "<b>"])
def test_hostile_html_takes_time_linear_in_its_length(piece: str) -> None:
    import time

    def seconds(n: int) -> float:
        begin = time.process_time()
        for _ in html_parts(piece * n):
            pass
        return time.process_time() - begin

    seconds(1000)
    assert seconds(80_000) < 40 * max(seconds(8_000), 0.005)


def test_places_are_those_of_the_text_as_given() -> None:
    text = "<p>Gr&ouml;&szlig;e: e\u0301tude ﬁne 東京都 STRASSE"
    vectorizer = TextVectorizer(min_df=1, strip_html=True).fit([text])
    names = vectorizer.vocabulary_
    located = {names[i]: [text[a:b] for a, b in at] for i, at in vectorizer.locate(text, range(len(names))).items()}
    assert located["grösse"] == ["Gr&ouml;&szlig;e"]
    assert located["étude"] == ["e\u0301tude"]
    assert located["fine"] == ["ﬁne"]
    assert located["京都"] == ["京都"]
    assert located["strasse"] == ["STRASSE"]


def test_locating_many_features_in_a_long_text_is_fast() -> None:
    import time

    text = " ".join(f"word{i % 5000} größe" for i in range(8000))
    vectorizer = TextVectorizer(min_df=1, max_ngram=2).fit([text])
    n_features = len(vectorizer.feature_ends_)
    begin = time.process_time()
    located = vectorizer.locate(text, range(n_features))
    assert time.process_time() - begin < 2  # 0.1 s; words × features would be minutes
    assert all(located.values())


def test_stems_make_one_word_of_many() -> None:
    pytest.importorskip("snowballstemmer")
    text = "running runs Servers serving"
    vectorizer = TextVectorizer(min_df=1, stemmer="english", stop_words=["Running"]).fit([text, "talojen"])
    assert vectorizer.vocabulary_ == ["serv", "server", "talojen"]
    located = vectorizer.locate(text, [0, 1])
    assert [[text[a:b] for a, b in spans] for spans in located.values()] == [["serving"], ["Servers"]]
    assert features("talossa talojen", stemmer="finnish") == ["talo"]
    with pytest.raises(ValueError, match=r"stemmer must be one of arabic, .*english, .*got 'klingon'"):
        TextVectorizer(stemmer="klingon").fit(["a"])


def test_a_stemmer_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from longtail.tagging.stemmers import find_stemmer

    find_stemmer.cache_clear()
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    with pytest.raises(ImportError, match=r"pip install 'longtail\[stemmer\]'"):
        TextVectorizer(stemmer="english").fit(["a"])


def test_a_text_without_any_known_word_is_told() -> None:
    vectorizer = TextVectorizer(min_df=1).fit(["web server"])
    X = vectorizer.transform(["a web page", "some other words", ""])
    assert vectorizer.rows_without_words(X).tolist() == [False, True, True]


def test_it_works_in_a_pipeline_of_scikit_learn() -> None:
    from sklearn.base import clone
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.utils.validation import check_is_fitted

    texts, y = ["web server", "web page", "fun game", "card game"] * 5, [0, 0, 1, 1] * 5
    pipeline = make_pipeline(TextVectorizer(min_df=1), LogisticRegression())
    assert pipeline.fit(texts, y).score(texts, y) == 1
    assert list(pipeline[:-1].get_feature_names_out()) == ["card", "fun", "game", "page", "server", "web"]
    check_is_fitted(pipeline[0])
    search = GridSearchCV(pipeline, {"textvectorizer__max_ngram": [1, 2]}, cv=2).fit(texts, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    copied = clone(TextVectorizer(max_ngram=2, stop_words=["the"]))
    assert copied.get_params()["max_ngram"] == 2
    assert repr(copied) == "TextVectorizer(max_ngram=2, stop_words=['the'])"
    assert_same(TextVectorizer(min_df=1).fit_transform(texts, y), TextVectorizer(min_df=1).fit(texts).transform(texts))
    assert pipeline.set_output(transform="default") is pipeline
    with pytest.raises(ValueError, match="set_output must be 'default', got 'pandas'"):
        pipeline.set_output(transform="pandas")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"title": texts, "body": texts})
    both = ColumnTransformer([("t", TextVectorizer(min_df=1), "title"), ("b", TextVectorizer(min_df=1), "body")])
    assert both.fit_transform(frame).shape == (20, 12)
    assert list(both.get_feature_names_out())[:2] == ["t__card", "t__fun"]


def test_what_is_no_text_is_named() -> None:
    for wrong, message in (("one text", "got one str"), ([1], "text 0 must be a str, got 1")):
        with pytest.raises(TypeError, match=message):
            TextVectorizer(min_df=1).fit(wrong)


def test_rows_are_what_scikit_learn_takes() -> None:
    texts = ["a small web server", "a mail server", "a web browser"] * 5
    rows = TextVectorizer(min_df=1).fit_transform(texts)
    assert rows.indptr.dtype == rows.indices.dtype == np.int32
    assert TruncatedSVD(2, random_state=0).fit_transform(rows).shape == (15, 2)

"""The longtail backend, used by the commands of the unmodified Annif package."""

import functools
import shutil

import pytest

import longtail as lt
from tests.clients.annif_runner import ANNIF, command, read_metrics, run_annif, uri, write_corpus, write_documents

pytestmark = pytest.mark.skipif(
    ANNIF is None, reason="Annif is not installed; `make clients-test` makes its environment"
)

N_TRAIN, N_TEST = 600, 100
PROJECTS = """
[tags]
name=tags
language=en
backend=longtail
analyzer=snowball(english)
vocab=debtags
allow_learn=true

[wrong]
name=wrong
language=en
backend=longtail
vocab=debtags
cost=-1

[frequent]
name=frequent
language=en
backend=longtail
vocab=debtags
estimator=Popularity
costs=3
"""
COMMANDS = {
    "load-vocab": command("load-vocab", "debtags", "vocab.tsv", "--language", "en"),
    "untrained": command("suggest", "tags", text="a small web server"),
    "train": command("train", "tags", "train.tsv", "--jobs", "1"),
    "list": command("list-projects"),
    "suggest": command("suggest", "tags", "--limit", "3", text="a small web server"),
    "unknown words": command("suggest", "tags", text="xyzzy plugh"),
    "eval": command("eval", "tags", "test.tsv", "--jobs", "1"),
    "eval in processes": command("eval", "tags", "test.tsv", "--jobs", "2"),
    "learn": command("learn", "tags", "more.tsv"),
    "suggest learnt": command("suggest", "tags", "--limit", "1", text="zzyzx quux"),
    "cached": command("train", "tags", "--cached", "--backend-param", "longtail.cost=0.5", "--jobs", "1"),
    "hyperopt": command("hyperopt", "tags", "test.tsv", "--trials", "2", "--results-file", "trials.tsv"),
    "wrong": command("train", "wrong", "train.tsv"),
    "other estimator": command("train", "frequent", "train.tsv"),
    "no limit": command("suggest", "frequent", "--backend-param", "longtail.limit=0", text="a web server"),
    "limit in words": command("suggest", "frequent", "--backend-param", "longtail.limit=abc", text="a web server"),
    "frequent": command("suggest", "frequent", "--limit", "1", text="a small web server"),
    "fewer subjects": command("load-vocab", "debtags", "fewer.tsv", "--language", "en"),
    "removed": command("suggest", "frequent", "--limit", "1", text="a small web server"),
    "new vocabulary": command("load-vocab", "debtags", "fewer.tsv", "--language", "en", "--force"),
    "never there": command("suggest", "frequent", "--limit", "1", text="a small web server"),
}
ONE_PART = ("load-vocab", "untrained", "train", "list", "suggest", "unknown words", "eval", "eval in processes")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("annif")
    write_corpus(folder, n_train=N_TRAIN, n_test=N_TEST)
    known = lt.datasets.load_sample().train_texts[0]
    texts = ["zzyzx quux gadget", "zzyzx quux widget", known]
    write_documents(folder / "more.tsv", texts, [["game::toys"]] * 3)
    (folder / "projects.cfg").write_text(PROJECTS)
    lines = (folder / "vocab.tsv").read_text().splitlines(keepends=True)
    (folder / "fewer.tsv").write_text("".join(line for line in lines if uri(most_frequent()) not in line))
    return folder


@pytest.fixture(scope="module")
def done(folder):
    """What each command printed."""
    first = dict(zip(ONE_PART, run_annif(folder, *map(COMMANDS.get, ONE_PART)), strict=True))
    # Kept for comparison: the next commands replace the model.
    shutil.copytree(model_path(folder), folder / "first.model")
    rest = [name for name in COMMANDS if name not in ONE_PART]
    return first | dict(zip(rest, run_annif(folder, *map(COMMANDS.get, rest)), strict=True))


def model_path(folder, project="tags"):
    return folder / "data" / "projects" / project / "longtail-model"


@functools.cache
def most_frequent():
    labels = [name for names in lt.datasets.load_sample().train_labels[:N_TRAIN] for name in names]
    return max(sorted(set(labels)), key=labels.count)


def output(done, name):
    assert done[name]["code"] == 0, done[name]["errors"]
    return done[name]["output"]


def test_train_and_suggest(done):
    assert "Project is not trained" in done["untrained"]["errors"]
    output(done, "train")
    row = next(line for line in output(done, "list").splitlines() if line.startswith("tags"))
    assert "True" in row, "the project is trained"
    lines = output(done, "suggest").splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"<{uri('')}") for line in lines)
    scores = [float(line.split("\t")[2]) for line in lines]
    assert 1 > scores[0] >= scores[1] >= scores[2] > 0


def test_eval_agrees_with_our_own_metrics(done, folder):
    found = read_metrics(output(done, "eval"))
    assert found["Documents evaluated"] == N_TEST
    sample = lt.datasets.load_sample()
    texts = [" ".join(text.split()) for text in sample.test_texts[:N_TEST]]
    model = lt.load(folder / "first.model")
    hits = [
        len({tag.label for tag in tags} & {uri(name) for name in names}) / 5
        for tags, names in zip(model.tag(texts), sample.test_labels[:N_TEST], strict=True)
    ]
    assert found["Precision@5"] == pytest.approx(sum(hits) / N_TEST, abs=1e-3)


def test_eval_in_two_processes_gives_the_same(done):
    assert read_metrics(output(done, "eval in processes")) == read_metrics(output(done, "eval"))


def test_the_analyzer_of_the_project_stems_the_words(done, folder):
    vectorizer = lt.load(folder / "first.model").vectorizer
    assert vectorizer.stemmer == "english"
    assert "librari" in vectorizer.vocabulary_


def test_a_text_without_known_words_gets_no_subjects(done):
    assert output(done, "unknown words") == ""


def test_learn_adds_documents_and_corrects_known_ones(done, folder):
    output(done, "learn")
    assert output(done, "suggest learnt").startswith(f"<{uri('game::toys')}>")
    before, after = lt.load(folder / "first.model"), lt.load(model_path(folder))
    assert after.n_rows_ == before.n_rows_ + 2
    assert "zzyzx" in after.vectorizer.vocabulary_


def test_train_cached_uses_the_documents_again(done, folder):
    output(done, "cached")
    assert lt.load(model_path(folder)).estimator.cost == 0.5


def test_hyperopt_searches_the_ranges_of_the_estimator(done, folder):
    assert "Got best NDCG score 0." in output(done, "hyperopt")
    assert "cost=" in output(done, "hyperopt")
    header, *trials = (folder / "trials.tsv").read_text().splitlines()
    assert "cost" in header.split("\t")
    assert len(trials) == 2
    assert all(0.3 < float(line.split("\t")[1]) < 1 for line in trials)


def test_wrong_settings_are_one_line(done, folder):
    assert done["wrong"]["code"] == 1
    assert "DiSMEC: cost must be a number > 0, got -1" in done["wrong"]["errors"]
    assert not model_path(folder, "wrong").exists()


@pytest.mark.parametrize(("name", "value"), [("no limit", "'0'"), ("limit in words", "'abc'")])
def test_a_wrong_limit_is_one_line(done, name, value):
    assert done[name]["code"] == 1
    assert f"limit must be a whole number >= 1, got {value}" in done[name]["errors"]
    assert "Traceback" not in done[name]["errors"]


def test_another_estimator_and_unknown_settings(done):
    assert "unknown setting costs has no effect" in done["other estimator"]["errors"]
    assert output(done, "frequent").startswith(f"<{uri(most_frequent())}>")


@pytest.mark.parametrize("name", ["removed", "never there"])
def test_labels_outside_the_vocabulary_are_left_out_with_one_warning(done, name):
    found = output(done, name)
    assert found.startswith(f"<{uri('')}")
    assert uri(most_frequent()) not in found
    assert done[name]["errors"].count(f"never suggested, such as {uri(most_frequent())}") == 1

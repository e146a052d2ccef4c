"""A model in a folder of a model hub: README.md and config.json beside it."""

import pytest

import longtail as lt
from longtail.saving import record_evaluation


@pytest.fixture
def tagger():
    return lt.Tagger(lt.Popularity(), lt.TextVectorizer(min_df=1)).fit(["web server", "mail"], [["net"], ["mail"]])


def test_files_of_a_hub_stay_when_a_model_is_saved_again(tagger, tmp_path):
    path = tmp_path / "tags.model"
    lt.save(tagger, path)
    for name in ("README.md", "config.json", ".gitattributes"):
        (path / name).write_text(f"mine: {name}")
    assert lt.load(path).label_names_ == ["mail", "net"]
    lt.save(tagger, path, overwrite=True)
    for name in ("README.md", "config.json", ".gitattributes"):
        assert (path / name).read_text() == f"mine: {name}"
    assert lt.load(path).label_names_ == ["mail", "net"]


def test_a_new_repository_of_a_hub_can_be_filled(tagger, tmp_path):
    path = tmp_path / "tags.model"
    path.mkdir()
    (path / "README.md").write_text("mine")
    with pytest.raises(FileExistsError, match="exists"):
        lt.save(tagger, path)
    lt.save(tagger, path, overwrite=True)
    assert (path / "README.md").read_text() == "mine"
    assert lt.load(path).n_labels_ == 2


def test_an_evaluation_is_recorded_beside_a_readme(tagger, tmp_path):
    path = tmp_path / "tags.model"
    lt.save(tagger, path)
    (path / "README.md").write_text("mine")
    record_evaluation(path, {"P@1": 50.0}, n_rows=2)
    assert lt.load(path).card()["metrics"] == {"P@1": 50.0}
    assert (path / "README.md").read_text() == "mine"


def test_a_folder_that_the_hubs_client_downloaded_can_be_saved_again(tagger, tmp_path):
    path = tmp_path / "tags.model"
    lt.save(tagger, path)
    note = path / ".cache" / "huggingface" / "download" / "manifest.json.metadata"
    note.parent.mkdir(parents=True)
    note.write_text("a commit")
    lt.save(tagger, path, overwrite=True)
    assert note.read_text() == "a commit"
    record_evaluation(path, {"P@1": 50.0}, n_rows=2)
    assert note.read_text() == "a commit"
    assert lt.load(path).n_labels_ == 2


@pytest.mark.parametrize("name", ["notes.txt", "estimator/README.md"])
def test_other_files_still_stop_a_save(tagger, tmp_path, name):
    path = tmp_path / "tags.model"
    lt.save(tagger, path)
    (path / name).write_text("mine")
    with pytest.raises(FileExistsError, match="was not written by longtail"):
        lt.save(tagger, path, overwrite=True)
    assert (path / name).read_text() == "mine"

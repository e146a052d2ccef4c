"""Model cards: what the model knows, and no more."""

import pytest
import yaml

import longtail as lt


@pytest.fixture
def tagger():
    labels = [["net", "a|b"], ["mail"], ["x`y"]]
    return lt.Tagger(lt.DiSMEC(n_jobs=1), lt.TextVectorizer(min_df=1)).fit(["web server", "mail", "other"], labels)


def metadata(card):
    return yaml.safe_load(card.split("---\n")[1])


def test_a_card_has_the_metadata_of_the_hub(tagger):
    found = metadata(lt.model_card(tagger))
    assert found["library_name"] == "longtail"
    assert found["pipeline_tag"] == "text-classification"
    assert "model-index" not in found


def test_metrics_are_shown_once_they_are_measured(tagger):
    assert "Not measured" in lt.model_card(tagger)
    measured = tagger.evaluate(["web server", "mail"], [["net"], ["mail"]])
    card = lt.model_card(tagger)
    assert f"| P@1 | {measured['P@1']:.2f} |" in card
    metrics = metadata(card)["model-index"][0]["results"][0]["metrics"]
    assert {one["type"]: one["value"] for one in metrics}["P@1"] == pytest.approx(measured["P@1"], abs=0.005)


def test_the_measured_data_has_a_name(tagger):
    tagger.evaluate(["web server"], [["net"]], data="may: 2026.jsonl")
    card = lt.model_card(tagger)
    assert metadata(card)["model-index"][0]["results"][0]["dataset"]["name"] == "may: 2026.jsonl"
    assert "Measured on `may: 2026.jsonl`" in card


def test_odd_names_do_not_break_the_page(tagger):
    card = lt.model_card(tagger)
    assert r"`a\|b`" in card
    assert "`` x`y ``" in card


def test_an_estimator_without_names():
    model = lt.Popularity().fit([[1.0, 0.0], [0.0, 1.0]], [[1, 0], [1, 1]])
    card = lt.model_card(model)
    assert "Most frequent labels" not in card
    assert "predict_top_k" in card
    assert "pipeline_tag" not in metadata(card)


def test_the_command_writes_a_file_and_keeps_what_is_there(tagger, tmp_path):
    from click.testing import CliRunner

    from longtail.cli.card import card

    lt.save(tagger, tmp_path / "tags.model")
    path = tmp_path / "tags.model" / "README.md"
    run = CliRunner()
    assert run.invoke(card, [str(tmp_path / "tags.model"), "-o", str(path)]).exit_code == 0
    assert path.read_text().split("\n# ")[1].startswith("tags\n")
    again = run.invoke(card, [str(tmp_path / "tags.model"), "-o", str(path)])
    assert isinstance(again.exception, FileExistsError)
    assert run.invoke(card, [str(tmp_path / "tags.model")]).output == path.read_text()

"""The V2 inference protocol, spoken by Triton's client."""

import threading
import time

import numpy as np
import pytest

tritonclient = pytest.importorskip("tritonclient.http", reason="tritonclient is not installed; run `make clients-test`")
from tritonclient.utils import InferenceServerException  # noqa: E402


@pytest.fixture(scope="module")
def client(model):
    import uvicorn

    from longtail.serve import create_app

    config = uvicorn.Config(create_app(model, name="tags"), port=0, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the service did not start"
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    with tritonclient.InferenceServerClient(f"127.0.0.1:{port}") as client:
        yield client
    server.should_exit = True
    thread.join(30)


def texts(*values, shape=None):
    array = np.array(values, dtype=object)
    tensor = tritonclient.InferInput("text", shape or array.shape, "BYTES")
    return tensor.set_data_from_numpy(array.reshape(shape or array.shape), binary_data=False)


def test_health_and_metadata(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("tags")
    assert client.get_server_metadata()["name"] == "longtail"
    found = client.get_model_metadata("tags")
    assert found["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
    assert [one["name"] for one in found["outputs"]] == ["labels", "scores"]


def test_infer(client, tagger):
    answer = client.infer("tags", [texts("a web server", "the music player")], request_id="7", parameters={"top_k": 2})
    labels, scores = answer.as_numpy("labels"), answer.as_numpy("scores")
    expected = tagger.tag(["a web server", "the music player"], 2)
    assert labels.astype(str).tolist() == [[tag.label for tag in row] for row in expected]
    np.testing.assert_allclose(scores, [[tag.score for tag in row] for row in expected], rtol=1e-6)
    assert answer.get_response()["id"] == "7"


def test_rows_are_filled_up_and_columns_are_taken(client):
    answer = client.infer("tags", [texts("a web server", shape=[1, 1])], parameters={"top_k": 5})
    labels = answer.as_numpy("labels").astype(str).tolist()
    assert labels[0][0] == "net"
    assert labels[0][3:] == ["", ""]


def test_one_output(client):
    wanted = [tritonclient.InferRequestedOutput("labels", binary_data=False)]
    answer = client.infer("tags", [texts("a web server")], outputs=wanted)
    assert answer.as_numpy("scores") is None
    assert answer.as_numpy("labels").shape == (1, 5)


@pytest.mark.parametrize("top_k", [0, 1000])
def test_wrong_requests_are_refused(client, top_k):
    with pytest.raises(InferenceServerException, match="top_k"):
        client.infer("tags", [texts("a web server")], parameters={"top_k": top_k})


def test_binary_data_is_refused(client):
    tensor = tritonclient.InferInput("text", [1], "BYTES")
    tensor.set_data_from_numpy(np.array(["a web server"], dtype=object), binary_data=True)
    with pytest.raises(InferenceServerException, match="binary_data=False"):
        client.infer("tags", [tensor])


def test_an_unknown_model_is_not_there(client):
    assert not client.is_model_ready("nosuch")

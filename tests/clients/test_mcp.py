"""The MCP server, asked by the client of the mcp package over standard input and output."""

import asyncio
import json
import sys

import pytest

import longtail as lt

mcp = pytest.importorskip("mcp", reason="mcp is not installed; run `make clients-test`")
pytest.importorskip("mcp.server.mcpserver", reason="needs mcp 2; run `make clients-test`")


@pytest.fixture(scope="module")
def answers(model):
    """What the server says to each call."""
    server = mcp.StdioServerParameters(command=sys.executable, args=["-m", "longtail", "mcp", str(model)])

    async def ask():
        async with mcp.Client(server) as client:
            tools = await client.list_tools()
            return {
                "tools": sorted(tool.name for tool in tools.tools),
                "tag": await client.call_tool("tag", {"text": "a small web server", "top_k": 1}),
                "explain": await client.call_tool("explain", {"text": "a small web server", "label": "net"}),
                "search": await client.call_tool("search_labels", {"query": "mu"}),
                "unknown label": await client.call_tool("explain", {"text": "a server", "label": "nosuch"}),
                "too many": await client.call_tool("tag", {"text": "a server", "top_k": 1000}),
            }

    return asyncio.run(ask())


def content(answer):
    assert not answer.is_error, answer
    found = answer.structured_content or json.loads(answer.content[0].text)
    return found.get("result", found)


def test_tools(answers):
    assert answers["tools"] == ["explain", "search_labels", "tag"]


def test_tag(answers):
    assert [one["label"] for one in content(answers["tag"])] == ["net"]


def test_explain(answers):
    found = content(answers["explain"])
    total = found["bias"] + found["rest"] + sum(word["contribution"] for word in found["words"])
    assert total == pytest.approx(found["score"], abs=1e-5)
    assert found["words"][0]["word"] in {"web", "server"}


def test_search(answers):
    assert content(answers["search"]) == [{"label": "music"}]


def test_labels_of_a_vocabulary_have_names(tagger):
    from longtail.clients.mcp_server import create_server

    concepts = [lt.Concept(id=name, names={"en": name.title()}) for name in tagger.label_names_]
    server = create_server(tagger.with_threads(1).set_vocabulary(lt.Vocabulary(concepts)))
    wanted = {
        "tag": {"text": "a small web server", "top_k": 1},
        "explain": {"text": "a small web server", "label": "net"},
        "search_labels": {"query": "Net"},
    }
    for tool, arguments in wanted.items():
        found = content(asyncio.run(server.call_tool(tool, arguments)))
        first = found if tool == "explain" else found[0]
        assert (first["label"], first["name"]) == ("net", "Net"), tool


def test_wrong_arguments_are_errors_with_the_reason(answers):
    assert answers["unknown label"].is_error
    assert "there is no label 'nosuch'" in answers["unknown label"].content[0].text
    assert answers["too many"].is_error

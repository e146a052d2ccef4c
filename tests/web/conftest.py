"""A real browser on a real server."""

import json
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
import uvicorn

from longtail.serve import create_app
from longtail.serve.several import Service


def _find_browser() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return os.environ.get("LONGTAIL_BROWSER") or next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="module")
def browser():
    # Not for the session: the driver's event loop would stay in this thread, and asyncio.run of later tests would fail.
    path = _find_browser()
    if path is None:
        pytest.skip("no Chromium here: scripts/install-chromium gets it from the system's packages")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def check_with_axe(page) -> None:
    """Let axe look for what keeps people from using a page."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    page.wait_for_timeout(300)  # colours fade in
    found = axe.Axe().run(page).response["violations"]
    assert not found, json.dumps(found, indent=1)[:3000]


@contextmanager
def held_back(page, address: str) -> Iterator[None]:
    """Load the page again; requests to this address are held back until the block ends."""
    held = []
    page.route(address, lambda route: held.append(route))  # Playwright refuses the bound method of a list
    page.reload()
    yield
    assert held, f"the page did not ask for {address}"
    for route in held:
        route.continue_()
    page.unroute(address)


@contextmanager
def running(app) -> Iterator[str]:
    """Serve an application on a free port of this machine until the block ends."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        config = uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def open_page(browser) -> Iterator[Callable]:
    """Open the page of a model; anything the browser complains of fails the test."""
    complaints = []
    closers = []

    def open_page(tagger, *, may_complain=False, context=None, path="/", **settings):
        """`tagger` is a model, its path, or a whole application."""
        serving = running(tagger if isinstance(tagger, Service) else create_app(tagger, **settings))
        url = serving.__enter__()
        closers.append(lambda: serving.__exit__(None, None, None))
        page_context = browser.new_context(**(context or {}))
        closers.append(page_context.close)
        page = page_context.new_page()
        page.set_default_timeout(30_000)
        if not may_complain:
            page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.goto(url + path)
        return page

    yield open_page
    for close in reversed(closers):
        close()
    assert not complaints

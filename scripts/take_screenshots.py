"""Take the screenshots for README and docs: train on the sample, serve it, open the page in Chromium.

.venv/bin/python scripts/take_screenshots.py docs
"""

import io
import shutil
import socket
import sys
import tempfile
import threading
from pathlib import Path

import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright

import longtail as lt
from longtail.serve import create_app

LABEL = "network::server"
TEXT = """sandpiper
lightweight HTTP server for static files
Sandpiper is a small web server written in C. It serves static files over
HTTP and HTTPS, with virtual hosts, TLS certificates and access logs.

It runs as a daemon and is configured by one plain text file."""


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    sample = lt.datasets.load_sample()
    n_train = len(sample.train_texts) * 9 // 10
    tagger = lt.Tagger(lt.DiSMEC()).fit(sample.train_texts[:n_train], sample.train_labels[:n_train])
    tagger.calibrate(sample.train_texts[n_train:], sample.train_labels[n_train:])
    tagger.estimator.set_params(n_jobs=1)
    model = Path(tempfile.mkdtemp()) / "debtags.model"
    lt.save(tagger, model)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(model, feedback=True), log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        for scheme in ("light", "dark"):
            image = take(f"http://127.0.0.1:{listener.getsockname()[1]}", scheme)
            image.quantize(200, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
                folder / f"page-{scheme}.png", optimize=True
            )
    finally:
        server.should_exit = True
        thread.join()


def take(url: str, scheme: str) -> Image.Image:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(color_scheme=scheme, viewport={"width": 1180, "height": 860})
        page.goto(url)
        for text in (TEXT[:-1], TEXT):  # the first request is slower
            page.fill("#text", text)
            page.wait_for_timeout(1000)
        page.locator(".label", has_text=LABEL).locator(".verdict.accepted").click()
        page.evaluate("document.activeElement.blur()")
        page.locator(".label", has_text=LABEL).hover()
        page.wait_for_selector("#marks mark")
        page.wait_for_timeout(500)
        image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        browser.close()
    return image


if __name__ == "__main__":
    main()

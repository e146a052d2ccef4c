"""Run the examples and write docs/gallery.md with their code and pictures; with --check, only compare the page."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GALLERY = ROOT / "docs" / "gallery"
TITLES = {
    "tag_texts": "Tag texts",
    "products_with_embeddings": "Label products by embeddings",
    "find_the_tail": "Find the tail",
    "explain": "Explain a label",
    "tune": "Tune under a budget",
    "cluster": "Train on a cluster",
}


def page() -> str:
    """Return the text of the page; it depends on the examples' source only."""
    parts = ["# Gallery\n\nShort programs from `examples/`; each runs as it stands and draws its picture.\n"]
    for name, title in TITLES.items():
        source = (ROOT / "examples" / f"{name}.py").read_text()
        tree = ast.parse(source)
        summary = (ast.get_docstring(tree) or "").strip()
        code = "\n".join(source.splitlines()[tree.body[0].end_lineno or 0 :]).strip()
        parts.append(f"## {title}\n\n{summary}\n\n![{title}](gallery/{name}.png)\n\n```python\n{code}\n```\n")
    return "\n".join(parts)


def main() -> None:
    """Draw every picture again, then write the page."""
    target = ROOT / "docs" / "gallery.md"
    if "--check" in sys.argv:
        if target.read_text() != page():
            sys.exit("docs/gallery.md is out of date; run scripts/write_gallery.py")
        return
    GALLERY.mkdir(exist_ok=True)
    for name in TITLES:
        environment = os.environ | {"LONGTAIL_GALLERY": str(GALLERY)}
        subprocess.run([sys.executable, ROOT / "examples" / f"{name}.py"], check=True, env=environment)
    target.write_text(page())


if __name__ == "__main__":
    main()

"""longtail serve"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from longtail.cli import options

_KEY_VARIABLE = "LONGTAIL_API_KEY"


@click.command()
@options.model_argument
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free port.")
@click.option(
    "--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes; they share the model."
)
@click.option("--api-key-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="File with the key.")
@click.option("--allowed-host", "allowed_hosts", multiple=True, help="Another accepted Host header.")
@click.option("--max-request-bytes", type=int, default=1 << 20, show_default=True, help="Larger requests: 413.")
@click.option("--max-text-chars", type=int, default=100_000, show_default=True, help="Longer texts: 422.")
@click.option("--max-batch", type=int, default=256, show_default=True, help="More texts in a request: 422.")
@click.option("--max-top-k", type=int, default=100, show_default=True, help="More labels per text: 422.")
@click.option("--max-words", type=int, default=1000, show_default=True, help="Words in an explanation; others: summed.")
@click.option("--queue-size", type=int, default=256, show_default=True, help="Waiting requests; more: 503.")
@click.option("--max-header-bytes", type=int, default=32 << 10, show_default=True, help="Larger heads: 431.")
@click.option("--max-connections", type=int, default=512, show_default=True, help="More per worker: 503.")
@click.option("--max-connections-per-address", type=int, default=256, show_default=True, help="More per worker: 503.")
@click.option("--header-timeout-seconds", type=float, default=10, show_default=True, help="Slower heads: 408.")
@click.option("--body-timeout-seconds", type=float, default=10, show_default=True, help="Slower bodies: 408.")
@click.option("--work-timeout-seconds", type=float, default=30, show_default=True, help="Slower answers: 503.")
@click.option("--stop-timeout-seconds", type=float, default=10, show_default=True, help="Time to finish requests.")
@click.option("--verify", is_flag=True, help="Compare every checksum of the model when it is loaded.")
def serve(
    model: Path,
    host: str,
    port: int,
    workers: int,
    api_key_file: Path | None,
    allowed_hosts: tuple[str, ...],
    verify: bool,
    **bounds: Any,
) -> None:
    """Serve MODEL over HTTP, with a web page.

    Only this machine can reach it unless --host is given. The key that clients must then send is read from
    --api-key-file or from $LONGTAIL_API_KEY. SIGTERM and Ctrl-C stop it after the running requests, within
    --stop-timeout-seconds; SIGHUP loads the model again, and so does a new model in its place.

    \b
    Example:
      longtail serve tags.model --workers 2
    """
    api_key = _api_key(api_key_file)
    try:
        from longtail import serve as service
    except ImportError as error:
        raise ImportError(f"longtail serve needs more packages ({error.name}): pip install 'longtail[serve]'") from None

    if not service.is_loopback(host) and api_key is None:
        click.echo(f"longtail: everyone who can reach {host} may use this service; set ${_KEY_VARIABLE}", err=True)
    raise SystemExit(
        service.serve(
            model,
            host=host,
            port=port,
            n_workers=workers,
            limits=service.Limits(**bounds),
            api_key=api_key,
            allowed_hosts=allowed_hosts,
            verify=verify,
            on_ready=lambda url: click.echo(f"longtail: serving {model} on {url} (Ctrl-C stops)", err=True),
        )
    )


def _api_key(path: Path | None) -> str | None:
    key = path.read_text(encoding="utf-8").strip() if path else os.environ.get(_KEY_VARIABLE, "").strip()
    if path and not key:
        raise ValueError(f"{path} is empty; it must hold the API key")
    return key or None

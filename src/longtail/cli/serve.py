"""longtail serve"""

from __future__ import annotations

import os
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longtail.cli import options

if TYPE_CHECKING:
    from longtail.serve import Limits, ModelSettings

_CONFIG_KEYS = ("model", "api_key_file", "feedback", "queue", "language")
_KEY_VARIABLE = "LONGTAIL_API_KEY"


@click.command()
@click.argument("models", nargs=-1, metavar="MODEL...")
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="TOML file that describes models."
)
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
@click.option("--feedback", is_flag=True, help="Take corrections; they are stored in a file beside the model.")
@options.language_option
@click.option("--queue", type=click.Path(exists=True, path_type=Path), help="Texts to be looked at: a file or folder.")
@options.verify_option
def serve(
    models: tuple[str, ...],
    config: Path | None,
    host: str,
    port: int,
    workers: int,
    api_key_file: Path | None,
    allowed_hosts: tuple[str, ...],
    feedback: bool,
    queue: Path | None,
    language: str | None,
    verify: bool,
    **bounds: Any,
) -> None:
    """Serve models over HTTP, with a web page.

    A MODEL is a saved model of texts, NAME=MODEL, or a folder of models. With several, each is at /models/NAME and the
    first also at /. Only this machine can reach the service unless --host is given. The key that clients must then send
    is read from --api-key-file or from $LONGTAIL_API_KEY. SIGTERM and Ctrl-C stop it after the running requests, within
    --stop-timeout-seconds; SIGHUP loads the models again, and so does a new model in the place of an old one.

    A --config file has one table per model: [NAME] with model, and optionally api_key_file, feedback = true, queue,
    language and any limit below, spelled with underscores.

    \b
    Examples:
      longtail serve tags.model --workers 2
      longtail serve english=en.model german=de.model
    """
    api_key = _api_key(api_key_file)
    try:
        from longtail import serve as service
    except ImportError as error:
        raise ImportError(f"longtail serve needs more packages ({error.name}): pip install 'longtail[serve]'") from None

    limits = service.Limits(**bounds)
    settings = {
        name: service.ModelSettings(
            source=path, limits=limits, api_key=api_key, feedback=feedback, queue=queue, language=language
        )
        for name, path in service.find_models(models).items()
    }
    if config is not None:
        settings |= _read_config(config, limits, api_key, feedback=feedback, language=language)
    if not settings:
        raise click.UsageError("Missing argument 'MODEL...'.")
    if not service.is_loopback(host) and any(model.api_key is None for model in settings.values()):
        click.echo(f"longtail: everyone who can reach {host} may use this service; set ${_KEY_VARIABLE}", err=True)
    what = str(next(iter(settings.values())).source) if len(settings) == 1 else ", ".join(settings)
    raise SystemExit(
        service.serve(
            settings,
            host=host,
            port=port,
            n_workers=workers,
            limits=limits,
            allowed_hosts=allowed_hosts,
            verify=verify,
            on_ready=lambda url: click.echo(f"longtail: serving {what} on {url} (Ctrl-C stops)", err=True),
        )
    )


def _read_config(
    path: Path, limits: Limits, api_key: str | None, *, feedback: bool = False, language: str | None = None
) -> dict[str, ModelSettings]:
    """Read one table per model; paths are relative to the file."""
    from longtail.serve import ModelSettings

    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    settings = {}
    for name, table in tables.items():
        if not isinstance(table, dict) or not isinstance(table.get("model"), str):
            raise ValueError(f'{path}: [{name}] must be a table with model = "PATH"')
        own = {key: value for key, value in table.items() if key not in _CONFIG_KEYS}
        for key in own:
            if key not in vars(limits):
                raise ValueError(f"{path}: [{name}] has {key}, which is neither {', '.join(_CONFIG_KEYS)} nor a limit")
        key_file = table.get("api_key_file")
        settings[name] = ModelSettings(
            source=path.parent / table["model"],
            limits=replace(limits, **own),
            api_key=api_key if key_file is None else _api_key(path.parent / key_file),
            feedback=_flag(path, name, table.get("feedback", feedback)),
            queue=path.parent / table["queue"] if "queue" in table else None,
            language=_text(path, name, "language", table.get("language", language)),
        )
    return settings


def _flag(path: Path, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{path}: [{name}] feedback must be true or false, got {value!r}")
    return value


def _text(path: Path, name: str, key: str, value: object) -> str | None:
    if not isinstance(value, str | None):
        raise ValueError(f"{path}: [{name}] {key} must be a text, got {value!r}")
    return value


def _api_key(path: Path | None) -> str | None:
    key = path.read_text(encoding="utf-8").strip() if path else os.environ.get(_KEY_VARIABLE, "").strip()
    if path and not key:
        raise ValueError(f"{path} is empty; it must hold the API key")
    return key or None

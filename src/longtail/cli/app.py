"""The `longtail` command. Nothing heavy is imported here: `longtail --help` must stay instant."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

import longtail
from longtail.cli.bench import bench
from longtail.cli.calibrate import calibrate
from longtail.cli.card import card
from longtail.cli.completion import completion
from longtail.cli.convert import convert
from longtail.cli.evaluate import evaluate
from longtail.cli.explain import explain
from longtail.cli.feedback import feedback
from longtail.cli.info import info
from longtail.cli.labels import labels
from longtail.cli.learn import learn, rollback
from longtail.cli.mcp import mcp
from longtail.cli.predict import predict
from longtail.cli.queue import queue
from longtail.cli.report import report
from longtail.cli.reproduce import reproduce
from longtail.cli.serve import serve
from longtail.cli.shell_words import in_shell_words
from longtail.cli.tag import tag
from longtail.cli.train import train
from longtail.cli.tune import tune
from longtail.cli.vocabulary import vocabulary


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(longtail.__version__, prog_name="longtail")
def app() -> None:
    """Rank the few relevant labels out of thousands to millions.

    \b
    Data files are known by their ending:
      .txt .txt.gz           XMC text: 'n_rows n_features n_labels', then 'l1,l2 f:v f:v ...'
      .svm .svm.gz           svmlight, multi-label
      .npz                   scipy matrices, X.NAME.npz beside Y.NAME.npz
      .jsonl .csv .tsv (.gz) texts with label names; also Annif's .tsv, .fasttext and .parquet
      a directory            CSR arrays, memory-mapped (made by `longtail convert`)

    \b
    Example:
      longtail train train.jsonl.gz -o tags.model
      longtail evaluate tags.model test.jsonl.gz
      longtail tag tags.model "a small web server for static files"
    """


for command in (
    train,
    tune,
    predict,
    evaluate,
    tag,
    explain,
    calibrate,
    labels,
    vocabulary,
    info,
    card,
    convert,
    report,
    serve,
    mcp,
    feedback,
    queue,
    learn,
    rollback,
    bench,
    reproduce,
    completion,
):
    app.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors become one line on stderr and exit code 2."""
    try:
        app(arguments, prog_name="longtail", standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt) as stop:
        _leave(str(stop.__cause__ or stop) or "stopped", 130)  # click makes an Abort of Ctrl-C
    except click.UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # `longtail` alone; click has the class since 8.2
            error.show()
            sys.exit(2)
        command = error.ctx.command_path if error.ctx is not None else "longtail"
        _leave(f"{' '.join(error.format_message().split()).rstrip('.')}; see {command} --help", 2)
    except click.ClickException as error:
        _leave(error.format_message(), 2)
    except BrokenPipeError:
        sys.stderr.close()  # the reader closed our output, as in `| head`
        sys.exit(0)
    except MemoryError as error:
        _leave(str(error) or "out of memory; use fewer threads (--n-jobs), smaller data or a larger machine", 2)
    except (ValueError, TypeError, OSError, ImportError) as error:
        message = " ".join(str(error).split()) or type(error).__name__
        message = " ".join([message, *(f"({note})" for note in getattr(error, "__notes__", ()))])
        _leave(in_shell_words(message, _command_of(sys.argv[1:] if arguments is None else arguments)), 2)


def _command_of(arguments: Sequence[str]) -> click.Command:
    """Return the command that the arguments call."""
    found: click.Command = app
    for word in arguments:
        if isinstance(found, click.Group):
            found = found.commands.get(word, found)
    return found


def _leave(message: str, code: int) -> None:
    click.echo(f"longtail: {message}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()

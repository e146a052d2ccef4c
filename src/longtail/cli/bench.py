"""longtail bench"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longtail._words import counted
from longtail.cli import options

if TYPE_CHECKING:
    from longtail.bench import Cell

_GO_ON = "stopped; run the same command again to continue"


@click.command()
@click.argument("matrix", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--train", type=click.Path(exists=True, path_type=Path), help="Your own data instead of a matrix …")
@click.option("--test", type=click.Path(exists=True, path_type=Path), help="… and the rows to test on.")
@click.option("--unit-rows", is_flag=True, help="Scale every row of --train and --test to length 1.")
@click.option("-s", "--system", "systems", multiple=True, metavar="NAME", help="Only these; may be repeated.")
@click.option("-d", "--data", "datasets", multiple=True, metavar="NAME", help="Only these data sets of the matrix.")
@click.option("--threads", multiple=True, type=click.IntRange(1), help="Without a matrix; may be repeated. Default 1.")
@click.option("--repetitions", type=click.IntRange(1), help="Without a matrix. Default 1.")
@click.option("--limit-seconds", type=float, help="For one cell; without a matrix. Default 400.")
@click.option(
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("bench.jsonl"),
    show_default=True,
    help="Lines are appended here; cells that have one are skipped.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the tables and plots as files.",
)
@click.option(
    "--data-folder", type=click.Path(path_type=Path), help="Of relative files; default: $LONGTAIL_DATA or here."
)
@click.option(
    "--peers",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with adapters of other libraries, such as benchmarks/peers of the source.",
)
@click.option("--timeout-seconds", type=float, help="Start no cell after this time; run again to continue.")
@click.option("--retry-failed", is_flag=True, help="Run failed cells again.")
@click.option("--render", "only_render", is_flag=True, help="Run nothing; show stored results (of -s and -d).")
@click.option("--list", "only_list", is_flag=True, help="Run nothing; list the cells.")
@options.json_option
def bench(
    matrix: Path | None,
    train: Path | None,
    test: Path | None,
    unit_rows: bool,
    systems: tuple[str, ...],
    datasets: tuple[str, ...],
    threads: tuple[int, ...],
    repetitions: int | None,
    limit_seconds: float | None,
    results: Path,
    output: Path | None,
    data_folder: Path | None,
    peers: Path | None,
    timeout_seconds: float | None,
    retry_failed: bool,
    only_render: bool,
    only_list: bool,
    as_json: bool,
) -> None:
    """Measure systems side by side: accuracy, time, memory and model size.

    MATRIX is a TOML file of data sets, systems and threads (see docs/bench.md). Without it, all our systems run on
    --train and --test, or on the shipped sample. Each cell runs in its own process, pinned to its CPUs. Other
    libraries take part with --peers.

    \b
    Example:
      longtail bench --train eurlex_train.txt.gz --test eurlex_test.txt.gz --unit-rows -s DiSMEC -s FastXML
      longtail bench benchmarks/matrix.toml --peers benchmarks/peers --results results.jsonl -o results
    """
    from longtail import bench as benches

    if (train is None) != (test is None) or (matrix is not None and train is not None):
        raise click.UsageError("give a MATRIX, or --train together with --test, or nothing for the shipped sample")
    if matrix is not None:
        _refuse("goes into the MATRIX", threads=threads, repetitions=repetitions, limit_seconds=limit_seconds)
    elif not only_render:
        _refuse("is for a MATRIX", data=datasets)
    if train is None:
        _refuse("is for --train and --test", unit_rows=unit_rows)
    if output is not None:
        benches.check_matplotlib()  # before hours of measuring, not after
    n_unread = 0
    others = benches.load_peers(peers) if peers is not None else {}
    if only_render:
        if not results.exists():
            raise FileNotFoundError(f"{results} does not exist; --results names the file to render")
    else:
        if matrix is not None:
            cells = _chosen(benches.read_matrix(matrix, others), matrix, systems, datasets)
        else:
            data = benches.Data("sample", sample=True)
            if train is not None and test is not None:
                data = benches.Data(train.name, str(train.resolve()), str(test.resolve()), unit_rows=unit_rows)
            limit = 400 if limit_seconds is None else limit_seconds
            cells = benches.make_matrix(data, systems, threads or (1,), repetitions or 1, limit, others)
        if only_list:
            for cell in cells:
                click.echo(json.dumps(cell.identity()) if as_json else _name(cell))
            return
        n_unread = run_cells(
            cells,
            results,
            data_folder=data_folder or Path(os.environ.get("LONGTAIL_DATA", "")),
            retry_failed=retry_failed,
            timeout_seconds=timeout_seconds,
        )
    lines = benches.read_results(results)
    if only_render:
        lines = [line for line in lines if not systems or line["system"] in systems]
        lines = [line for line in lines if not datasets or line["dataset"] in datasets]
    tables = benches.render_tables(lines)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / "benchmarks.md").write_text(tables, encoding="utf-8")
        for path in (output / "benchmarks.md", *benches.draw_plots(lines, output)):
            click.echo(str(path), err=True)
    if as_json:
        for line in lines:
            click.echo(json.dumps(line))
    else:
        click.echo(tables, nl=False)
    if n_unread:
        raise ValueError(f"{counted(n_unread, 'cell')} did not run: the data could not be read, see above")


def _refuse(why: str, **given: object) -> None:
    """Refuse options that would be ignored."""
    for name, value in given.items():
        if value:
            raise click.UsageError(f"--{name.replace('_', '-')} {why}")


def _chosen(cells: list[Cell], matrix: Path, systems: tuple[str, ...], datasets: tuple[str, ...]) -> list[Cell]:
    """Keep the cells of the named systems and data sets; every name must match one."""
    for option, names, known in (
        ("-s", systems, dict.fromkeys(cell.system.name for cell in cells)),
        ("-d", datasets, dict.fromkeys(cell.data.name for cell in cells)),
    ):
        for name in names:
            if name not in known:
                raise ValueError(f"{matrix}: {option} must be one of {', '.join(known)}, got {name!r}")
    cells = [cell for cell in cells if not systems or cell.system.name in systems]
    cells = [cell for cell in cells if not datasets or cell.data.name in datasets]
    if not cells:
        raise ValueError(f"{matrix} has no such cell; --list without -s and -d shows all")
    return cells


def run_cells(cells: list[Cell], results: Path, **options: Any) -> int:
    """Run the cells and print progress; return the number of cells whose data could not be read."""
    from longtail.bench import read_results, run_matrix
    from longtail.bench.matrix import key_of

    n_unread = 0

    def tell(cell: Cell, record: dict[str, Any] | None) -> None:
        nonlocal n_unread
        n_unread += record is not None and "machine" not in record
        _tell(cell, record)

    keys = {cell.key() for cell in cells}
    failed = {key_of(line): "failed" in line for line in read_results(results)}
    n_failed = sum(failed[key] for key in keys & failed.keys())
    before = signal.signal(signal.SIGTERM, _end)
    try:
        n_left = run_matrix(cells, results, tell=tell, **options)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_GO_ON) from None
    finally:
        signal.signal(signal.SIGTERM, before)
    if n_left:
        click.echo(f"left for the next run of the same command: {counted(n_left, 'cell')}", err=True)
    if n_failed and not options["retry_failed"]:
        click.echo(
            f"failed in an earlier run and left out without --retry-failed: {counted(n_failed, 'cell')}", err=True
        )
    return n_unread


def _end(*_: object) -> None:
    """Exit through the finally clauses, which end the worker: it runs in its own session."""
    click.echo(f"\nlongtail: {_GO_ON}", err=True)
    sys.exit(128 + signal.SIGTERM)


def _name(cell: Cell) -> str:
    threads = "1 thread" if cell.threads == 1 else f"{cell.threads} threads"
    return f"{cell.data.name}, {cell.system.title}, {threads}, run {cell.repetition + 1}"


def _tell(cell: Cell, record: dict[str, Any] | None) -> None:
    from longtail.bench.tables import number

    if record is None:
        click.echo(f"{_name(cell)} … ", nl=False, err=True)
    elif "failed" in record:
        click.echo(options.shortened(f"failed: {record['failed']}", 300), err=True)
    else:
        train, predict = number(record["train_wall_seconds"], 3), number(record["predict_ms_per_row"], 2)
        click.echo(
            f"train {train} s, predict {predict} ms/row, {number(record['model_mb'], 3)} MB, "
            f"P@1 {record['P@1']:.2f}, PSP@1 {record['PSP@1']:.2f}",
            err=True,
        )

"""The DiSMEC estimator: parameters, training, prediction."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._cancel import as_interrupt, current_control
from longtail._estimate import Estimate
from longtail._fitted import Fitted
from longtail._matrices import Matrix, copied_bytes, label_columns, native_rows
from longtail._progress import Progress
from longtail._ranges import Between, OneOf
from longtail._rules import Bool, Choice, Int, Nothing, Real
from longtail._threads import resolve_n_jobs
from longtail._topk import TopK
from longtail._words import counted
from longtail.calibration import further_fits
from longtail.calibration.power import Valued
from longtail.dismec import label_prints, training
from longtail.dismec.changeable_dismec import ChangeableDiSMEC
from longtail.dismec.equal_labels import EqualLabels
from longtail.dismec.estimate import probe, warn_of_memory
from longtail.dismec.index import merge_shards
from longtail.dismec.masks import label_masks
from longtail.dismec.occurring import OccurringFeatures
from longtail.dismec.outcome import warn_of_long_rows, warn_of_pruning, warn_of_unconverged
from longtail.dismec.similar_labels import label_tree
from longtail.dismec.state import OneVsAll
from longtail.execution import Executor, Run, Shard, ThreadExecutor
from longtail.propensity import PropensityModel, positive_weights

_START_MARGINS = {"squared_hinge": -2.0, "logistic": -3.0}  # t of the paper, section 4 and 5


@dataclass(kw_only=True, eq=False, repr=False)
class DiSMEC(ChangeableDiSMEC):
    """Train one linear classifier for each label, exactly (DiSMEC++; Schultheis and Babbar 2022).

    Each label minimises ½‖w‖² + Σ cost·loss(y·w·x) until the gradient is small (eq. 12 and 13 of the paper); weights
    below `prune_below` are dropped. Labels are trained sixty-four at a time on working sets of rows; the result of a
    label depends on its own column only. Rows of unit length give the best results on text.

    Memory: the data, the model, and scratch for each thread; docs/dismec.md says how much, `estimate` for given rows.

    Parameters
    ----------
    loss : "squared_hinge" or "logistic", default "squared_hinge"
    cost : float, default 1.0
        The paper's C: how much the losses count against ‖w‖².
    tolerance : float, default 0.01
        The paper's ε₀ (eq. 13).
    start : "msi", "zero", "bias", "ovap", "ovap++" or "auto", default "msi"
        Where training begins; it changes the time, not the result. "msi" separates the means of positives and
        negatives, "ovap" begins with the weights of a label that no row carries, "ovap++" with those of the most
        similar label trained before. "auto" takes "zero" for dense rows with frequent labels, else "msi".
    positive_margin, negative_margin : float, default 1.0 and None
        msi's s and t: the margins of the two means; None means -2 (-3 for the logistic loss).
    start_bias : float, default -2.0
        The bias that start "bias" begins with.
    strict_ovap : bool, default False
        Train the "ovap" weights to the same precision as any label, not only until ε₀.
    bias : float, default 1.0
        Value of the constant feature; 0 for none.
    regularize_bias : bool, default True
        Count the bias weight in ‖w‖², as LIBLINEAR's LinearSVC does; the paper's code does not.
    prune_below : float, default 0.01
        Weights of smaller size are dropped from the model.
    weight_type : "float32" or "int8", default "float32"
        int8 keeps one byte per weight, scaled by label, and a twentieth of the weights, the largest, as float32.
    positive_weights : None, "propensity", "unbiased" or "class-balanced", default None
        Weigh the positives of each label by 1/p, or by 2/p - 1, the convex surrogate of the unbiased loss; p is the
        label's propensity, with `propensity_a` and `propensity_b` (default 0.55 and 1.5). "class-balanced" is
        (2/p - 1)·(1 - β)/(1 - β^N) for a label with N rows; β is `balance_beta` (default 0.9).
    solver : "auto" or "newton", default "auto"
        "auto" trains on working sets where it can; "newton" always takes Newton steps over all active rows, as the
        paper does.
    cg_rule : "residual" or "quadratic", default "residual"
        When conjugate gradients stop in Newton steps over all rows: at `cg_tolerance` times the gradient, or by the
        paper's code's rule.
    cg_tolerance : float, default 0.1
    max_iterations : int, default 100
        Newton steps, or rounds of the working set; labels that need more are counted in `n_unconverged_`.
    keep_statistics : bool, default False
        Keep per-label statistics of the training in `statistics_`.
    n_jobs : int or None, default None
        Threads; None means all that may be used.
    random_state : int, default 0
        Accepted like everywhere; nothing here is random.

    Attributes
    ----------
    index_indptr_, index_label_ids_, index_weights_, index_codes_, label_scales_, biases_ : arrays
        The model, feature-major: docs/dismec.md draws it.
    n_unconverged_ : int
        Labels that ended before the stopping rule was met.
    statistics_ : dict of arrays
        With `keep_statistics`: iterations, cg_steps, converged, seconds, first_objective, last_objective,
        gradient_ratio and distance (from the start to the result, ‖w₀ − w‖) for each label, and the histories
        objectives, active_rows, step_sizes, step_seconds, step_cg_steps, where label l owns [history_indptr[l],
        history_indptr[l + 1]). Newton steps over all rows (``solver="newton"``) also tell distances, elsewhere NaN,
        and the time and CG steps of the step that begins at an entry; labels trained together share their time.

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> X = np.array([[1, 0], [0.9, 0.1], [0, 1]], dtype=np.float32)
    >>> Y = np.array([[1, 0], [1, 0], [0, 1]])
    >>> lt.DiSMEC(n_jobs=1).fit(X, Y).predict_top_k(X, top_k=1).label_ids.ravel()
    array([0, 0, 1], dtype=int32)
    """

    loss: Annotated[str, Choice("squared_hinge", "logistic"), OneOf("squared_hinge", "logistic")] = "squared_hinge"
    cost: Annotated[float, Real(0, above=True), Between(0.1, 20.0, log=True)] = 1.0
    tolerance: Annotated[float, Real(0, above=True)] = 0.01
    start: Annotated[str, Choice("msi", "zero", "bias", "ovap", "ovap++", "auto")] = "msi"
    positive_margin: Annotated[float, Real()] = 1.0
    negative_margin: Annotated[float | None, Real(), Nothing()] = None
    start_bias: Annotated[float, Real()] = -2.0
    strict_ovap: Annotated[bool, Bool()] = False
    bias: Annotated[float, Real(0)] = 1.0
    regularize_bias: Annotated[bool, Bool()] = True
    prune_below: Annotated[float, Real(0)] = 0.01
    weight_type: Annotated[str, Choice("float32", "int8")] = "float32"
    positive_weights: Annotated[
        str | None, Choice("propensity", "unbiased", "class-balanced"), Nothing(), OneOf(None, "propensity", "unbiased")
    ] = None
    propensity_a: Annotated[float, Real(0, 100)] = PropensityModel.a
    propensity_b: Annotated[float, Real(0, above=True)] = PropensityModel.b
    balance_beta: Annotated[float, Real(0, 0.9999)] = 0.9
    solver: Annotated[str, Choice("auto", "newton")] = "auto"
    cg_rule: Annotated[str, Choice("residual", "quadratic")] = "residual"
    cg_tolerance: Annotated[float, Real(0, 1, above=True)] = 0.1
    max_iterations: Annotated[int, Int(1)] = 100
    keep_statistics: Annotated[bool, Bool()] = False

    _State: ClassVar = OneVsAll
    _threshold: ClassVar[float] = 0.0
    _can_add_labels: ClassVar[bool] = True
    _ranks_by_value: ClassVar[bool] = True
    _can_correct_labels: ClassVar[bool] = True
    _absent: ClassVar[dict[str, Any]] = {"balance_beta": 0.9}

    # ---- training ---------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        warm_start_from: DiSMEC | None = None,
        calibrate: bool = False,
        executor: str | Executor | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Self:
        """Learn from rows and their labels; see the base class for the other arguments.

        Parameters
        ----------
        sample_weight : array (n_rows,), optional
            How much each row counts: its loss is multiplied by this. Rows with weight 0 are left out. Trained
            like ``solver="newton"``, which takes longer.
        warm_start_from : fitted DiSMEC, optional
            Labels whose rows and parameters are those of that model are copied from it, byte for byte; the others
            begin with its weights (new labels with `start`). Labels are matched by id.
        """
        self._fit_whole(
            X,
            y,
            calibrate=calibrate,
            executor=executor,
            checkpoint=checkpoint,
            progress=progress,
            sample_weight=sample_weight,
            earlier=None if warm_start_from is None else _Earlier(warm_start_from),
        )
        fitted = self._whole()
        state, n_labels = fitted.state, fitted.facts.n_labels
        warn_of_unconverged(state.n_unconverged, n_labels, max_iterations=self.max_iterations, tolerance=self.tolerance)
        warn_of_pruning(len(state.index.label_ids), X, prune_below=self.prune_below, unit_rows=self.unit_rows)
        return self

    def _fit(  # type: ignore[override]
        self,
        X: Matrix,
        Y: sp.csr_array,
        run: Run,
        *,
        earlier: _Earlier | None = None,
        row_weights: NDArray[np.float32] | None = None,
    ) -> OneVsAll:
        prints = self._label_prints(X, Y, row_weights)
        kept = np.zeros(Y.shape[1], dtype=bool)
        if earlier is not None:
            n_features = len(earlier.state.index.indptr) - 1
            if n_features != X.shape[1]:
                raise ValueError(
                    f"DiSMEC: warm_start_from was fitted with {n_features} features, but X has {X.shape[1]}"
                )
            if earlier.state.index.is_int8 == (self.weight_type == "int8"):
                kept = label_prints.unchanged(prints, earlier.state.label_prints)
        trained = self._train(X, Y, run, np.flatnonzero(~kept), earlier, row_weights)
        index = trained.index
        if earlier is not None and kept.any():
            index = label_prints.keep_columns(index, earlier.state.index, kept)
        return replace(trained, index=index, label_prints=prints)

    def estimate(self, X: Any, Y: Any, *, calibrate: bool = False) -> Estimate:
        """Estimate what ``fit(X, Y, calibrate=calibrate)`` will take: seconds, peak memory and model size.

        Trains a few labels of each frequency: seconds, or up to half a minute for long fits. Usually right within a
        factor of two.
        """
        rows, Y, n_copied = self._data_to_estimate(X, Y, calibrate=calibrate)
        n_features, X = rows.shape[1], rows
        if (features := OccurringFeatures.worth_numbering(X)) is not None:
            X = features.numbered(X)
        equal = self._equal_labels(Y)
        n_equal = np.ones(Y.shape[1], dtype=np.int64) if equal is None else equal.sizes
        n_jobs = resolve_n_jobs(self.n_jobs)
        with as_interrupt():
            arrays, params, _ = self._plan_parts(X, Y if equal is None else Y[:, equal.first_ids], _core.Control())
            n_copied += copied_bytes(X, rows) + (copied_bytes(arrays["x_dense"], X) if "x_dense" in arrays else 0)
            found = probe(arrays, params, n_features, n_jobs, n_equal, int8=self.weight_type == "int8")
        found = replace(found, memory_bytes=found.memory_bytes + n_copied)
        return found.with_calibration(further_fits(X.shape[0])) if calibrate else found

    # ---- prediction -------------------------------------------------------------------------------------------

    def _top_k(self, fitted: Fitted[OneVsAll], X: Matrix, top_k: int) -> TopK:
        return TopK(*self._run_kernel(_core.predict_ova, fitted, X, top_k))

    def _by_value(self, fitted: Fitted[OneVsAll], X: Matrix, values: _core.ValueTable, top_k: int) -> Valued:
        return Valued(*self._run_kernel(_core.predict_ova_by_value, fitted, X, values, top_k))

    def _run_kernel(self, kernel: Callable[..., Any], fitted: Fitted[OneVsAll], X: Matrix, *wanted: Any) -> Any:
        n_threads = min(resolve_n_jobs(self.n_jobs), max(1, X.shape[0] // 64))
        index, facts = fitted.state.index, fitted.facts
        masks = label_masks(index, facts.n_labels, X.shape[0])
        arrays = (*index.native(), facts.label_counts, masks)
        return kernel(native_rows(X), facts.n_labels, *arrays, *wanted, n_threads, current_control())

    # ---- inner parts ------------------------------------------------------------------------------------------

    def _train(
        self,
        X: Matrix,
        Y: sp.csr_array,
        run: Run,
        label_ids: NDArray[Any],
        earlier: _Earlier | None = None,
        row_weights: NDArray[np.float32] | None = None,
    ) -> OneVsAll:
        n_labels = Y.shape[1]
        n_unconverged = 0
        statistics: dict[str, NDArray[Any]] | None = None
        shards: list[Shard] = []
        shard_labels: list[NDArray[np.int64]] = []
        mean: NDArray[np.float32] | None = None
        equal: EqualLabels | None = None
        if (features := OccurringFeatures.worth_numbering(X)) is not None:
            X = features.numbered(X)
        if len(label_ids):
            Y_trained = Y if len(label_ids) == n_labels else Y[:, label_ids]
            if (found := self._equal_labels(Y_trained)) is not None:
                Y_trained = Y_trained[:, found.first_ids]
                equal = found.within(label_ids)
                label_ids = equal.first_ids
            arrays, params, order = self._plan_parts(X, Y_trained, run.control, row_weights)
            mean = arrays["mean"][:-1]
            if earlier is not None:
                own = label_prints.own_starts(earlier.state.index, earlier.n_labels, label_ids)
                arrays |= own if features is None else features.of_starts(own)
            if isinstance(run.executor, ThreadExecutor):
                warn_of_memory(arrays, params, run.n_jobs)
            shards = run.map(training.make_plan(arrays, params, len(label_ids), run.control))
            bounds = training.task_bounds(len(label_ids))
            shard_labels = [label_ids[order[first:last]] for first, last in itertools.pairwise(bounds)]
            n_infinite = sum(int(np.count_nonzero(~np.isfinite(shard["biases"]))) for shard in shards)
            if n_infinite:
                raise ValueError(
                    f"DiSMEC: the weights of {counted(n_infinite, 'label')} are not finite, because values of X are "
                    "too large; scale the rows, for instance with unit_rows=True"
                )
            unconverged = np.concatenate(
                [ids[shard["converged"] == 0] for ids, shard in zip(shard_labels, shards, strict=True)]
            )
            n_unconverged = len(unconverged if equal is None else equal.of(unconverged)[0])
            if self.keep_statistics:
                statistics = label_prints.merge_statistics(shards, shard_labels, n_labels)
        index = merge_shards(
            shards,
            shard_labels,
            X.shape[1],
            n_labels,
            int8=self.weight_type == "int8",
            mean=mean,
            directory=run.checkpoint_path,
            equal=equal,
            n_threads=run.n_jobs,
            control=run.control,
        )
        if features is not None:
            index = features.spread(index)
        return OneVsAll(index, np.zeros(n_labels, dtype=np.int64), n_unconverged, statistics)

    def _equal_labels(self, Y: sp.csr_array) -> EqualLabels | None:
        """Group labels with the same rows; statistics are wanted of each label's own training."""
        return None if self.keep_statistics else EqualLabels.worth_sharing(label_columns(Y))

    def _plan_parts(
        self, X: Matrix, Y: sp.csr_array, control: _core.Control, row_weights: NDArray[np.float32] | None = None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any], NDArray[Any]]:
        """Prepare the arrays and parameters of a plan, and the order in which its tasks take the labels."""
        warn_of_long_rows(X, cost=self.cost)
        if self.loss == "squared_hinge":
            X = training.dense_if_smaller(X)
        columns = label_columns(Y)
        bias = float(self.bias)
        arrays = training.training_arrays(X, columns, bias, row_weights)
        start = self._chosen_start(X, columns[0])
        margin = self.negative_margin if self.negative_margin is not None else _START_MARGINS[self.loss]
        params: dict[str, Any] = {
            "n_features": int(X.shape[1]),
            "loss": self.loss,
            "cost": float(self.cost),
            "tolerance": float(self.tolerance),
            "bias": bias,
            "regularize_bias": bool(self.regularize_bias),
            "prune_below": float(self.prune_below),
            "working_sets": self.solver == "auto",
            "max_iterations": int(self.max_iterations),
            "cg_rule": self.cg_rule,
            "cg_tolerance": float(self.cg_tolerance),
            "keep_statistics": bool(self.keep_statistics),
            "start": "shared" if start in ("ovap", "ovap++") else start,
            "positive_margin": float(self.positive_margin),
            "negative_margin": float(margin),
            "start_bias": float(self.start_bias),
        }
        if self.positive_weights is not None:
            arrays["positive_weights"] = positive_weights(
                self.positive_weights,
                np.diff(columns[0]),
                X.shape[0],
                model=PropensityModel(self.propensity_a, self.propensity_b),
                beta=float(self.balance_beta),
            )
        order: NDArray[Any] = np.arange(Y.shape[1])
        if start in ("ovap", "ovap++"):
            shared = training.all_negative_weights(arrays, params, control, strict=bool(self.strict_ovap))
            arrays["shared"] = shared
            rows = training.linear_rows(arrays, X.shape[1])
            arrays["shared_margins"] = _core.row_margins(rows, shared, bias)
        if start == "ovap++":
            order, arrays["label_parents"] = label_tree(Y)
            arrays["label_order"] = order
        return arrays, params, order

    def _chosen_start(self, X: Matrix, indptr: NDArray[np.int64]) -> str:
        if self.start != "auto":
            return self.start
        # Frequent labels over dense rows leave most rows active to the end: a good start saves nothing there.
        n_trained = max(1, np.count_nonzero(np.diff(indptr)))
        mean_share = indptr[-1] / n_trained / X.shape[0]
        return "zero" if isinstance(X, np.ndarray) and mean_share > 0.01 else "msi"

    def _label_prints(
        self, X: Matrix, Y: sp.csr_array, row_weights: NDArray[np.float32] | None = None
    ) -> NDArray[np.int64]:
        shaping = ("loss", "cost", "tolerance", "bias", "regularize_bias", "prune_below", "positive_weights")
        names: Sequence[str] = (*shaping, "propensity_a", "propensity_b", "weight_type")
        if self.positive_weights == "class-balanced":
            names = (*names, "balance_beta")
        params = {name: getattr(self, name) for name in names}
        arrays = training.matrix_arrays(X) | ({} if row_weights is None else {"row_weights": row_weights})
        return label_prints.label_prints(arrays, X.shape, label_columns(Y), params)


class _Earlier:
    """A snapshot of the model that a fit starts from."""

    def __init__(self, model: DiSMEC) -> None:
        fitted = model._whole() if callable(getattr(model, "_whole", None)) else None
        if fitted is None or not isinstance(fitted.state, OneVsAll):
            raise TypeError(f"DiSMEC: warm_start_from must be a fitted DiSMEC or None, got {model!r}")
        self.state, self.n_labels = fitted.state, fitted.facts.n_labels

// From the text on the page to its labels.

import { forgetVerdicts } from "./corrections.js";
import { byId } from "./dom.js";
import { showMarks } from "./explanations.js";
import { showLabels } from "./labels.js";
import { call, clearError, inLanguage, showError } from "./service.js";
import { formatValue, state } from "./state.js";

const TOP_K = 15;
const WAIT_MS = 180;

let timer = 0;
let running = null;

/** What the controls ask for, besides the text. */
export function choice() {
  const asked = { top_k: TOP_K, threshold: byId("auto").checked ? "auto" : null, ...inLanguage() };
  if (state.below) asked.below = state.below;
  if (byId("unseen").checked) asked.unseen = true;
  if (state.calibrated && byId("parents").checked) asked.parents = true;
  const rare = Number(byId("rare").value);
  if (state.calibrated && rare > 0) asked.utility = `power:${rare / 100}`;
  return asked;
}

export function tagSoon(delay = WAIT_MS) {
  clearTimeout(timer);
  timer = setTimeout(tagNow, delay);
}

export async function tagNow() {
  clearTimeout(timer);
  if (running) running.abort();
  const text = byId("text").value;
  if (!text.trim()) {
    running = null;
    setTagged("", [], null);
    byId("status").textContent = "";
    clearError();
    showLabels();
    return;
  }
  running = new AbortController();
  const mine = running;
  try {
    const { answer, version, milliseconds } = await call("api/tag", { body: { text, ...choice() }, signal: mine.signal });
    state.version = version;
    setTagged(text, answer.labels, answer.known_words);
    clearError();
    widenRange();
    byId("status").textContent = state.knownWords === 0
      ? "The model knows no word of this text."
      : milliseconds === null ? "" : `${milliseconds.toFixed(1)} ms`;
    showLabels();
    state.onTagged?.();
  } catch (error) {
    showError(error);
    if (error.status === 503) tagSoon(1000 * (error.retryAfter || 1));
  } finally {
    if (running === mine) running = null;
  }
}

function setTagged(text, labels, knownWords) {
  state.labels = labels;
  state.knownWords = knownWords;
  if (text === state.taggedText) return;
  state.taggedText = text;
  state.explanations.clear();
  state.asked = [];
  forgetVerdicts();
}

/** The slider covers the scores seen so far, so that it does not jump with every letter. */
function widenRange() {
  state.calibrated = state.labels.length ? state.labels.every((label) => label.proba !== null) : state.calibrated;
  byId("auto-box").hidden = !state.calibrated;
  byId("rare-box").hidden = !state.calibrated;
  byId("threshold-name").textContent = state.calibrated ? "Lowest probability" : "Lowest score";
  if (state.calibrated) {
    state.low = 0;
    state.high = 1;
    return;
  }
  for (const label of state.labels) {
    state.low = Math.min(state.low, label.score);
    state.high = Math.max(state.high, label.score);
  }
}

export function textChanged(delay = WAIT_MS) {
  const n = Array.from(byId("text").value).length;
  byId("text-size").textContent = n ? `${n.toLocaleString("en")} characters` : "";
  byId("link").disabled = !n;
  showMarks([]);
  tagSoon(delay);
}

/** Put a text on the page, as if it had been typed, and wait for its labels. */
export function showText(text) {
  byId("text").value = text;
  textChanged();
  byId("text").scrollTop = 0;
  byId("text").focus();
  return tagNow();
}

function thresholdChanged() {
  const share = Number(byId("threshold").value) / 1000;
  state.threshold = share === 0 ? null : state.low + share * (state.high - state.low);
  byId("threshold-value").textContent = state.threshold === null ? "any" : formatValue(state.threshold);
  showLabels();
}

function rareChanged() {
  const rare = Number(byId("rare").value);
  byId("rare-value").textContent = rare === 0 ? "most probable first" : `${rare} % rare`;
  tagSoon();
}

export function listenToControls() {
  for (const id of ["unseen", "parents"]) byId(id).addEventListener("change", tagNow);
  byId("text").addEventListener("input", () => textChanged());
  byId("threshold").addEventListener("input", thresholdChanged);
  byId("rare").addEventListener("input", rareChanged);
  byId("auto").addEventListener("change", () => {
    byId("threshold").disabled = byId("auto").checked;
    tagNow();
  });
}

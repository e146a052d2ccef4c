// What the user says about the labels of a text: right, wrong, missing. Only if the service takes corrections.

import { button, byId, element, formatCount } from "./dom.js";
import { rowOf, shownLabels, showLabels } from "./labels.js";
import { call, clearError, showError } from "./service.js";
import { nameOf, state } from "./state.js";
import { showText } from "./tagging.js";
import { goTo, nextText } from "./worklist.js";

const verdicts = new Map();  // label: "accepted", "rejected" or "added"
const saved = [];            // corrections of this session, oldest first
let unanswered = null;       // the last correction that was sent and not answered

export function forgetVerdicts() {
  verdicts.clear();
  showSummary();
}

export function verdictButtons(label, place) {
  const name = label.label;
  const box = element("span", "verdicts");
  const key = place < 9 ? ` (Alt+${place + 1})` : "";
  for (const [verdict, sign, says] of [["accepted", "✓", "right"], ["rejected", "✗", "wrong"]]) {
    const node = button(`verdict ${verdict}`, sign, () => toggle(name, verdict), `${nameOf(label)} is ${says}`);
    node.title = `${says}${key}`;
    node.tabIndex = -1;
    const given = verdicts.get(name);
    node.setAttribute("aria-pressed", String(given === verdict || (given === "added" && verdict === "accepted")));
    box.append(node);
  }
  return box;
}

function toggle(name, verdict) {
  const given = verdicts.get(name);
  if (given === "added") {  // an added label is taken back by either button
    verdicts.delete(name);
    state.asked = state.asked.filter((label) => label.label !== name);
  } else if (given === verdict) verdicts.delete(name);
  else verdicts.set(name, verdict);
  showLabels();
  showSummary();
}

/** Turn the label at a place of the list from open to right, to wrong, to open. */
export function turnVerdict(place) {
  const label = shownLabels()[place];
  if (!state.hasFeedback || !label) return;
  const next = { undefined: "accepted", accepted: "rejected", rejected: "rejected", added: "accepted" };
  toggle(label.label, next[verdicts.get(label.label)]);
}

export function judgeFocused(verdict) {
  const name = document.activeElement?.closest?.(".label")?.dataset.label;
  if (!state.hasFeedback || name === undefined) return false;
  toggle(name, verdict);
  rowOf(name)?.focus();
  return true;
}

/** Add a missing label; names that the model does not know are new labels. */
export function addMissing(name, shown = null) {
  if (!state.taggedText) {
    showError(new Error("Write a text first; then add its missing labels."));
    return;
  }
  if (shownLabels().some((label) => label.label === name)) verdicts.set(name, "accepted");
  else {
    verdicts.set(name, "added");
    state.asked.push(state.labels.find((label) => label.label === name) || { label: name, name: shown, score: null, proba: null });
  }
  clearError();
  showLabels();
  showSummary();
}

const labelsOf = (verdict) => [...verdicts].filter(([, given]) => given === verdict).map(([name]) => name);

function showSummary() {
  byId("save").disabled = !verdicts.size && !byId("complete").checked;
  byId("undo").disabled = !saved.length;
  const parts = [["accepted", "right"], ["rejected", "wrong"], ["added", "added"]]
    .map(([verdict, says]) => [labelsOf(verdict).length, says])
    .filter(([n]) => n)
    .map(([n, says]) => `${n} ${says}`);
  byId("verdict-line").textContent = parts.join(", ");
}

export async function save() {
  if (!state.hasFeedback || byId("save").disabled || !state.taggedText) return;
  const body = {
    text: state.taggedText,
    accepted: labelsOf("accepted"),
    rejected: labelsOf("rejected"),
    added: labelsOf("added"),
    complete: byId("complete").checked,
  };
  if (state.version) body.version = state.version;
  const author = byId("author").value.trim();
  if (author) body.author = author;
  localStorage.setItem("longtail-author", author);
  // A correction that was sent and not answered may be stored: sent again with the same id, it is stored once.
  const content = JSON.stringify(body);
  if (unanswered?.content !== content) unanswered = { content, id: makeId() };
  const { id } = unanswered;
  const asked = [...state.asked];
  byId("save").disabled = true;
  try {
    await call("api/feedback", { body: { id, ...body } });
    unanswered = null;
    saved.push({ id, text: body.text, verdicts: new Map(verdicts), asked, complete: body.complete });
    verdicts.clear();
    byId("complete").checked = false;
    clearError();
    showLabels();
    byId("verdict-line").textContent = "";
    showSaved(`Saved. ${formatCount(saved.length, "correction")} in this session.`);
    nextText();
  } catch (error) {
    showError(error);
  }
  showSummary();
}

/** Take the last correction back: its text and verdicts are on the page again. */
export async function undo() {
  const last = saved.at(-1);
  if (last === undefined) return;
  try {
    await call(`api/feedback?id=${encodeURIComponent(last.id)}`, { method: "DELETE" });
    saved.pop();
    clearError();
    goTo(last.text);
    if (last.text !== state.taggedText) await showText(last.text);
    if (last.text === state.taggedText) {
      verdicts.clear();
      last.verdicts.forEach((verdict, name) => verdicts.set(name, verdict));
      const shown = new Set(state.labels.map((label) => label.label));
      state.asked = last.asked.filter((label) => !shown.has(label.label));
      byId("complete").checked = last.complete;
      showLabels();
    }
    showSaved("The last correction was taken back.");
  } catch (error) {
    showError(error);
  }
  showSummary();
}

function showSaved(text) {
  byId("saved-line").textContent = text;
}

/** crypto.randomUUID exists only on pages with TLS and on this machine. */
function makeId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function startCorrections(hasFeedback) {
  const isChanged = state.hasFeedback !== hasFeedback;
  state.hasFeedback = hasFeedback;
  byId("corrections").hidden = !hasFeedback;
  byId("correction-keys").hidden = !hasFeedback;
  byId("author").value = localStorage.getItem("longtail-author") || "";
  if (isChanged) showLabels();  // labels that came before this answer have no buttons yet
  showSummary();
}

export function listenToCorrections() {
  byId("save").addEventListener("click", save);
  byId("undo").addEventListener("click", undo);
  byId("complete").addEventListener("change", showSummary);
}

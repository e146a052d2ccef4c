// The list of proposed labels.

import { verdictButtons } from "./corrections.js";
import { byId, element } from "./dom.js";
import { pointAt } from "./explanations.js";
import { formatValue, nameOf, state, valueOf } from "./state.js";

const isShown = (label) => state.threshold === null || byId("auto").checked || valueOf(label) >= state.threshold;

/** Labels on the page: proposals that reach the threshold, then those that were asked about. */
export const shownLabels = () => [...state.labels.filter(isShown), ...state.asked];

export const rowOf = (name) => [...byId("labels").children].find((row) => row.dataset.label === name);

export function showLabels() {
  const rows = shownLabels();
  const hadFocus = document.activeElement && document.activeElement.closest(".label");
  const best = Math.max(...rows.map((label) => valueOf(label) ?? -Infinity), state.calibrated ? 1 : -Infinity);
  const worst = state.calibrated ? 0 : Math.min(0, ...rows.map((label) => valueOf(label) ?? Infinity));
  const list = byId("labels");
  list.replaceChildren(...rows.map((label, i) => labelRow(label, i, best, worst)));
  byId("copy").disabled = !state.labels.length;
  byId("empty").hidden = rows.length > 0;
  byId("empty").textContent = !state.taggedText
    ? "The labels of your text will appear here, best first. Point at one to see the words that speak for it."
    : state.labels.length
      ? "No label reaches the threshold."
      : "The model proposes no label for this text.";
  const names = rows.map((label) => label.label);
  if (hadFocus && rows.length) list.children[Math.max(0, names.indexOf(state.current))].focus();
  else if (state.current !== null) pointAt(names.includes(state.current) ? state.current : null);
}

function labelRow(label, i, best, worst) {
  const row = element("li", state.asked.includes(label) ? "label asked" : "label");
  row.tabIndex = i === 0 ? 0 : -1;
  row.dataset.label = label.label;
  const line = element("div", "label-line");
  const name = element("span", "label-name", nameOf(label));
  if (nameOf(label) !== label.label) name.title = label.label;
  line.append(name, element("span", "label-score", formatValue(valueOf(label))));
  if (state.hasFeedback) line.append(verdictButtons(label, i));
  const track = element("div", "track");
  const bar = element("div", "bar");
  const share = best > worst ? ((valueOf(label) ?? worst) - worst) / (best - worst) : 1;
  bar.style.setProperty("--length", `${Math.max(0, Math.min(1, share)) * 100}%`);
  track.append(bar);
  row.append(line, track);
  row.addEventListener("pointerenter", () => pointAt(label.label));
  row.addEventListener("pointerleave", () => { if (!row.contains(document.activeElement)) pointAt(null); });
  row.addEventListener("focus", () => pointAt(label.label));
  row.addEventListener("click", (event) => { if (!event.target.closest("button")) row.focus(); });
  return row;
}

/** Walk through the list with the arrow keys. */
export function moveInList(event) {
  const rows = [...byId("labels").children];
  const at = rows.indexOf(document.activeElement);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (at < 0 || !step || event.altKey) return;
  event.preventDefault();
  const next = rows[Math.max(0, Math.min(rows.length - 1, at + step))];
  rows.forEach((row) => { row.tabIndex = row === next ? 0 : -1; });
  next.focus();
}

// Texts to work through: those the service offers, or those of a file.

import { button, byId, element, formatCount } from "./dom.js";
import { call, clearError, showError } from "./service.js";

const BATCH = 20;

const list = { texts: [], at: -1, nLeft: null, fromQueue: false, show: () => {} };

export function listenToWorklist(showText) {
  list.show = showText;
  byId("queue-by").addEventListener("change", loadQueue);
  byId("work-next").addEventListener("click", () => step(1));
  byId("work-back").addEventListener("click", () => step(-1));
}

/** A new version of the model must not take the texts away that somebody works through. */
export async function startWorklist(hasQueue) {
  byId("queue-by-box").hidden = !hasQueue;
  if (list.texts.length) return;
  list.fromQueue = hasQueue;
  if (hasQueue) await loadQueue();
}

async function loadQueue() {
  try {
    const { answer } = await call(`api/queue?limit=${BATCH}&by=${byId("queue-by").value}`);
    list.texts = answer.rows.map((row) => row.text);
    list.nLeft = answer.n_left;
    list.at = -1;
    list.fromQueue = true;
    showList();
    clearError();
  } catch (error) {
    showError(error);
  }
}

/** Work through the texts of a file instead of the queue. */
export function workThrough(texts) {
  list.texts = texts;
  list.nLeft = texts.length;
  list.fromQueue = false;
  list.at = -1;
  step(1);
}

export function step(by) {
  if (!list.texts.length) return;
  const at = Math.max(0, Math.min(list.texts.length - 1, list.at + by));
  if (at === list.at) return;
  list.at = at;
  showList();
  list.show(list.texts[at]);
}

/** After a correction was taken back: go on from its text. */
export function goTo(text) {
  const at = list.texts.indexOf(text);
  if (at < 0) return;
  list.at = at;
  showList();
}

/** After a correction: on to the next text, and to the next batch of the queue after the last one. */
export async function nextText() {
  if (list.at < 0) return;
  if (list.at + 1 < list.texts.length) step(1);
  else if (list.fromQueue) {
    await loadQueue();
    step(1);
  }
}

function showList() {
  byId("work").hidden = !list.texts.length;
  byId("work-line").textContent = list.nLeft === null ? "" : `${formatCount(list.nLeft, "text")} left`;
  byId("work-list").replaceChildren(...list.texts.slice(0, 200).map((text, i) => {
    const item = element("li");
    const node = button("", text.trim().replace(/\s+/g, " ").slice(0, 160), () => step(i - list.at));
    if (i === list.at) node.setAttribute("aria-current", "true");
    item.append(node);
    return item;
  }));
  byId("work-list").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
}

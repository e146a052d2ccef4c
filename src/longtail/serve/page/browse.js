// All labels of the model: how many training texts each has, grouped by the part of the name before a separator.

import { button, byId, element, formatCount } from "./dom.js";
import { call, showError } from "./service.js";

const LIMIT = 100;
const SEPARATORS = ["::", " / ", "/", " -- ", ": "];

let timer = 0;
let examples = null;  // label: training texts of the model card that get it

export function listenToBrowser(ask) {
  byId("browse-open").addEventListener("click", () => {
    byId("browse").showModal();
    find(ask);
  });
  byId("browse-close").addEventListener("click", () => byId("browse").close());
  byId("browse-query").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => find(ask), 180);
  });
}

async function find(ask) {
  const query = byId("browse-query").value.trim();
  try {
    const { answer } = await call(`api/labels?query=${encodeURIComponent(query)}&limit=${LIMIT}`);
    const found = answer.labels.map((name, i) => ({ name, count: answer.counts?.[i] ?? null }));
    byId("browse-line").textContent = found.length === LIMIT
      ? `The ${LIMIT} most frequent ones that match; type more to see others.`
      : formatCount(found.length, "label");
    byId("browse-list").replaceChildren(...groupsOf(found).map(([group, labels]) => groupRow(group, labels, ask)));
  } catch (error) {
    byId("browse-line").textContent = error.message;
  }
}

/** Labels that share what stands before a separator form a group; the others stand alone. */
function groupsOf(labels) {
  const separator = SEPARATORS.find((sign) => labels.filter(({ name }) => name.includes(sign)).length > labels.length / 2);
  const groups = new Map();
  for (const label of labels) {
    const group = separator && label.name.includes(separator) ? label.name.split(separator)[0] : "";
    groups.set(group, [...(groups.get(group) || []), label]);
  }
  return [...groups];
}

function groupRow(group, labels, ask) {
  const item = element("li");
  if (group) {
    const details = element("details");
    details.open = true;
    details.append(element("summary", "", `${group} (${labels.length})`), labelList(labels, ask));
    item.append(details);
  } else item.append(labelList(labels, ask));
  return item;
}

function labelList(labels, ask) {
  const list = element("ul", "browse-labels");
  for (const { name, count } of labels) {
    const item = element("li");
    const open = button("quiet", name, () => showDetail(item, name, count, ask));
    item.append(open, element("span", "note", count === null ? "" : formatCount(count, "text")));
    list.append(item);
  }
  return list;
}

async function showDetail(item, name, count, ask) {
  const open = item.querySelector(".browse-detail");
  if (open) {
    open.remove();
    return;
  }
  const detail = element("div", "browse-detail");
  detail.append(button("quiet", "Ask about it for the text on the page", () => {
    byId("browse").close();
    ask(name);
  }));
  item.append(detail);
  const texts = (await examplesOf(name)).slice(0, 3);
  if (!texts.length) detail.append(element("p", "note", "None of the model's example texts gets this label."));
  else detail.append(...texts.map((text) => element("p", "browse-example", text.slice(0, 300))));
}

async function examplesOf(name) {
  try {
    if (examples === null) {
      examples = new Map();
      const { answer } = await call("api/examples");
      if (answer.texts.length) {
        const tagged = await call("api/tag-batch", { body: { texts: answer.texts, top_k: 5 } });
        tagged.answer.rows.forEach((row, i) => {
          for (const { label } of row) examples.set(label, [...(examples.get(label) || []), answer.texts[i]]);
        });
      }
    }
  } catch (error) {
    examples = null;
    showError(error);
  }
  return examples?.get(name) || [];
}

export function forgetExamples() {
  examples = null;
}

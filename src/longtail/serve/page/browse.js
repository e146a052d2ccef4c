// All labels of the model, with their training texts: the tree of its vocabulary, or groups by a separator in the name.

import { button, byId, element, formatCount } from "./dom.js";
import { call, inLanguage, showError } from "./service.js";
import { state } from "./state.js";
import { onlyBelow } from "./vocabulary.js";

const LIMIT = 100;
const SEPARATORS = ["::", " / ", "/", " -- ", ": "];

let timer = 0;
let ask = () => {};
let examples = null;  // label: training texts of the model card that get it

export function listenToBrowser(askAbout) {
  ask = askAbout;
  byId("browse-open").addEventListener("click", () => {
    byId("browse").showModal();
    find();
  });
  byId("browse-close").addEventListener("click", () => byId("browse").close());
  byId("browse-query").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(find, 180);
  });
}

async function find() {
  const query = byId("browse-query").value.trim();
  try {
    if (state.hasVocabulary && !query) {
      byId("browse-list").replaceChildren(...await branches(null));
      byId("browse-line").textContent = "The tree of the vocabulary; search to see labels that are not in it.";
      return;
    }
    const asked = new URLSearchParams({ query, limit: LIMIT, unseen: state.hasVocabulary, ...inLanguage() });
    const { answer } = await call(`api/labels?${asked}`);
    const found = answer.labels.map((label, i) => ({ label, name: answer.names?.[i] ?? label, count: answer.counts[i] }));
    byId("browse-line").textContent = found.length === LIMIT
      ? `The ${LIMIT} most frequent ones that match; type more to see others.`
      : formatCount(found.length, "label");
    byId("browse-list").replaceChildren(...groupsOf(found).map(([group, labels]) => groupRow(group, labels)));
  } catch (error) {
    byId("browse-line").textContent = error.message;
  }
}

/** The rows right below a label; a row with labels below it is opened when it is needed. */
async function branches(below) {
  const asked = new URLSearchParams({ ...(below === null ? {} : { below }), ...inLanguage() });
  const { answer } = await call(`api/tree?${asked}`);
  const items = answer.rows.map(branch);
  if (answer.n_rows > answer.rows.length) {
    items.push(element("li", "note", `${formatCount(answer.n_rows - answer.rows.length, "more label")}; search for them`));
  }
  return items;
}

function branch(entry) {
  if (!entry.n_below) return labelItem(entry);
  const item = element("li");
  const details = element("details");
  const inner = element("ul", "browse-labels");
  details.append(element("summary", "", `${entry.name} (${entry.n_below.toLocaleString("en")})`), inner);
  details.addEventListener("toggle", async () => {
    if (!details.open || inner.children.length) return;
    try {
      inner.replaceChildren(labelItem(entry), ...await branches(entry.label));
    } catch (error) {
      showError(error);
    }
  });
  item.append(details);
  return item;
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

function groupRow(group, labels) {
  const item = element("li");
  const list = element("ul", "browse-labels");
  list.append(...labels.map(labelItem));
  if (group) {
    const details = element("details");
    details.open = true;
    details.append(element("summary", "", `${group} (${labels.length})`), list);
    item.append(details);
  } else item.append(list);
  return item;
}

function labelItem(entry) {
  const item = element("li", "browse-label");
  const open = button("quiet", entry.name, () => showDetail(item, entry));
  if (entry.name !== entry.label) open.title = entry.label;
  item.append(open, element("span", "note", formatCount(entry.count, "text")));
  return item;
}

async function showDetail(item, { label, name, count }) {
  const open = item.querySelector(".browse-detail");
  if (open) {
    open.remove();
    return;
  }
  const detail = element("div", "browse-detail");
  const leave = (action) => () => {
    byId("browse").close();
    action();
  };
  const buttons = element("div", "buttons");
  if (count) buttons.append(button("quiet", "Ask about it for the text on the page", leave(() => ask(label))));
  if (state.hasVocabulary) buttons.append(button("quiet", "Propose only labels below it", leave(() => onlyBelow(label, name))));
  detail.append(buttons);
  item.append(detail);
  const texts = (await examplesOf(label)).slice(0, 3);
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

// A field that searches the labels of the model.

import { byId, element } from "./dom.js";
import { call, inLanguage, showError } from "./service.js";

const WAIT_MS = 180;

/**
 * Make a combobox of an input and a list.
 * choose(label, name) is called for a label; chooseNew(name), if given, for a name that no label has. Then labels that
 * only the vocabulary knows are found, too.
 */
export function labelSearch(inputId, listId, { choose, chooseNew = null }) {
  const input = byId(inputId);
  const list = byId(listId);
  let timer = 0;
  let searching = null;

  const options = () => [...list.querySelectorAll("[role=option]")];
  const selected = () => options().findIndex((item) => item.getAttribute("aria-selected") === "true");

  function close() {
    clearTimeout(timer);
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function select(i) {
    const items = options();
    if (!items.length) return;
    const at = (i + items.length) % items.length;
    items.forEach((item, j) => item.setAttribute("aria-selected", String(j === at)));
    items[at].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", items[at].id);
  }

  function take(item) {
    close();
    input.value = "";
    if (item.dataset.isNew) chooseNew(item.dataset.name);
    else choose(item.dataset.name, item.textContent);
  }

  function option(name, shown, i, isNew = false) {
    const item = element("li", "", isNew ? `New label “${name}”` : shown);
    if (shown !== name) item.title = name;
    item.id = `${listId}-${i}`;
    item.dataset.name = name;
    if (isNew) item.dataset.isNew = "yes";
    item.setAttribute("role", "option");
    item.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      take(item);
    });
    return item;
  }

  async function search() {
    const query = input.value.trim();
    if (!query) {
      close();
      return;
    }
    if (searching) searching.abort();
    searching = new AbortController();
    try {
      const asked = new URLSearchParams({ query, limit: 20, unseen: Boolean(chooseNew), ...inLanguage() });
      const { answer } = await call(`api/labels?${asked}`, { signal: searching.signal });
      const items = answer.labels.map((label, i) => option(label, answer.names?.[i] ?? label, i));
      if (chooseNew && answer.exact === null) items.push(option(query, query, items.length, true));
      if (!items.length) items.push(element("li", "none", "No label has this in its name."));
      list.replaceChildren(...items);
      list.hidden = false;
      input.setAttribute("aria-expanded", "true");
      select(0);
    } catch (error) {
      showError(error);
    }
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, WAIT_MS);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      select(selected() + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      if (!list.hidden && options()[selected()]) take(options()[selected()]);
    } else if (event.key === "Escape") {
      close();
    }
  });
  input.addEventListener("blur", close);
}

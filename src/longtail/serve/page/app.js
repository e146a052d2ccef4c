"use strict";

// Everything that comes from the model or the user reaches the page through textContent, never as HTML.

const TOP_K = 15;
const WAIT_MS = 180;
const MAX_WORDS = 12;
const WEAKEST_MARK = 0.08;  // of the strongest; weaker words would only make the text restless

const isNarrow = matchMedia("(max-width: 820px)");
const byId = (id) => document.getElementById(id);
const element = (name, className, text) => {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};

const state = {
  labels: [],          // of the last answer, best first
  knownWords: null,    // words of the tagged text that the model knows
  taggedText: "",      // the text they belong to
  asked: [],           // labels the user asked about, with their scores
  threshold: null,     // null: show all
  low: 0,              // range of the slider when scores are not probabilities
  high: 1,
  calibrated: false,
  current: null,       // label whose words are marked
  explanations: new Map(),
  version: null,
};

// ---- talking to the service ------------------------------------------------------------------------------------

class ServiceError extends Error {
  constructor(message, status, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

async function call(path, body, signal) {
  const headers = {};
  const key = sessionStorage.getItem("longtail-key");
  if (key) headers["X-API-Key"] = key;
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError("The service cannot be reached. Is it still running?", 0);
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    const retryAfter = Number(response.headers.get("Retry-After")) || null;
    throw new ServiceError(answer.error || `The service answered with status ${response.status}.`, response.status, retryAfter);
  }
  const timing = /dur=([\d.]+)/.exec(response.headers.get("Server-Timing") || "");
  noteVersion(response.headers.get("Model-Version"));
  return { answer, milliseconds: timing ? Number(timing[1]) : null };
}

function showError(error) {
  if (error.name === "AbortError") return;
  byId("key-form").hidden = error.status !== 401;
  byId("error").textContent = error.message;
  byId("error").hidden = false;
  byId("status").textContent = "";
}

function clearError() {
  byId("error").hidden = true;
  byId("key-form").hidden = true;
}

// ---- tagging ---------------------------------------------------------------------------------------------------

let timer = 0;
let running = null;

function tagSoon(delay = WAIT_MS) {
  clearTimeout(timer);
  timer = setTimeout(tagNow, delay);
}

async function tagNow() {
  clearTimeout(timer);
  if (running) running.abort();
  const text = byId("text").value;
  if (!text.trim()) {
    running = null;
    state.labels = [];
    state.asked = [];
    state.taggedText = "";
    byId("status").textContent = "";
    clearError();
    showLabels();
    return;
  }
  running = new AbortController();
  const mine = running;
  try {
    const body = { text, top_k: TOP_K, threshold: byId("auto").checked ? "auto" : null };
    const { answer, milliseconds } = await call("api/tag", body, mine.signal);
    state.labels = bestFirst(answer.labels);
    if (text !== state.taggedText) {
      state.taggedText = text;
      state.explanations.clear();
      state.asked = [];
    }
    clearError();
    widenRange();
    state.knownWords = answer.known_words;
    byId("status").textContent = state.knownWords === 0
      ? "The model knows no word of this text: the labels are a guess."
      : milliseconds === null ? "" : `${milliseconds.toFixed(1)} ms`;
    showLabels();
  } catch (error) {
    showError(error);
    if (error.status === 503) tagSoon(1000 * (error.retryAfter || 1));
  } finally {
    if (running === mine) running = null;
  }
}

/** Labels come by score; the curves behind probabilities differ from label to label, and people compare those. */
const bestFirst = (labels) => labels.every((label) => label.proba !== null)
  ? [...labels].sort((a, b) => b.proba - a.proba || b.score - a.score)
  : labels;

const valueOf = (label) => (state.calibrated ? label.proba : label.score);

function formatValue(value) {
  if (value === null || value === undefined) return "";
  return state.calibrated ? `${(100 * value).toFixed(1)} %` : value.toFixed(3);
}

/** The slider covers the scores seen so far, so that it does not jump with every letter. */
function widenRange() {
  state.calibrated = state.labels.length ? state.labels.every((label) => label.proba !== null) : state.calibrated;
  byId("auto-box").hidden = !state.calibrated;
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

const isShown = (label) => state.threshold === null || byId("auto").checked || valueOf(label) >= state.threshold;

// ---- showing labels --------------------------------------------------------------------------------------------

function showLabels() {
  const shown = state.labels.filter(isShown);
  const rows = [...shown.map((label) => [label, false]), ...state.asked.map((label) => [label, true])];
  const hadFocus = document.activeElement && document.activeElement.closest(".label");
  const best = Math.max(...rows.map(([label]) => valueOf(label) ?? -Infinity), state.calibrated ? 1 : -Infinity);
  const worst = state.calibrated ? 0 : Math.min(0, ...rows.map(([label]) => valueOf(label) ?? Infinity));
  const list = byId("labels");
  list.replaceChildren(...rows.map(([label, isAsked], i) => labelRow(label, isAsked, i === 0, best, worst)));
  byId("copy").disabled = !state.labels.length;
  byId("empty").hidden = rows.length > 0;
  byId("empty").textContent = !state.taggedText
    ? "The labels of your text will stand here, best first. Point at one to see the words that speak for it."
    : state.labels.length
      ? "No label reaches the threshold."
      : "The model proposes no label for this text.";
  const names = rows.map(([label]) => label.label);
  if (hadFocus && rows.length) list.children[Math.max(0, names.indexOf(state.current))].focus();
  else if (state.current !== null) pointAt(names.includes(state.current) ? state.current : null);
}

function labelRow(label, isAsked, isFirst, best, worst) {
  const row = element("li", isAsked ? "label asked" : "label");
  row.tabIndex = isFirst ? 0 : -1;
  row.dataset.label = label.label;
  const line = element("div", "label-line");
  line.append(element("span", "label-name", label.label), element("span", "label-score", formatValue(valueOf(label))));
  const track = element("div", "track");
  const bar = element("div", "bar");
  const share = best > worst ? (valueOf(label) - worst) / (best - worst) : 1;
  bar.style.setProperty("--length", `${Math.max(0, Math.min(1, share)) * 100}%`);
  track.append(bar);
  row.append(line, track);
  row.addEventListener("pointerenter", () => pointAt(label.label));
  row.addEventListener("pointerleave", () => { if (document.activeElement !== row) pointAt(null); });
  row.addEventListener("focus", () => pointAt(label.label));
  row.addEventListener("click", () => row.focus());
  return row;
}

const rowOf = (name) => [...byId("labels").children].find((row) => row.dataset.label === name);

// ---- why this label --------------------------------------------------------------------------------------------

let pointTimer = 0;

/** Mark the words that speak for a label; a label that is only passed over costs no request. */
function pointAt(name) {
  clearTimeout(pointTimer);
  state.current = name;
  for (const row of byId("labels").children) {
    row.classList.toggle("current", row.dataset.label === name);
    if (row.dataset.label !== name) row.querySelector(".words")?.remove();
  }
  byId("why").replaceChildren();
  if (name === null) {
    showMarks([]);
    return;
  }
  if (state.explanations.has(name)) {
    showExplanation(name, state.explanations.get(name));
    return;
  }
  pointTimer = setTimeout(async () => {
    const text = state.taggedText;
    try {
      const { answer } = await call("api/explain", { text, label: name });
      if (text !== state.taggedText) return;
      state.explanations.set(name, answer);
      if (state.current === name) showExplanation(name, answer);
    } catch (error) {
      showError(error);
    }
  }, 60);
}

/** Words stand under the text, where they move nothing; on a phone in the row, which was tapped and stays. */
function showExplanation(name, explanation) {
  const row = rowOf(name);
  if (isNarrow.matches) {
    if (row && !row.querySelector(".words")) row.append(wordList(explanation));
  } else {
    const title = element("h3", "", "Why ");
    title.append(element("strong", "", name), "?");
    byId("why").replaceChildren(title, wordList(explanation));
  }
  if (byId("text").value === state.taggedText) showMarks(explanation.words);
}

function wordList(explanation) {
  const words = [...explanation.words].sort((a, b) => Math.abs(b.contribution) - Math.abs(a.contribution));
  const list = element("ul", "words");
  for (const word of words.slice(0, MAX_WORDS)) {
    const sign = word.contribution < 0 ? "−" : "+";
    const text = `${word.word} ${sign}${Math.abs(word.contribution).toFixed(2)}`;
    list.append(element("li", word.contribution < 0 ? "against" : "for", text));
  }
  if (words.length > MAX_WORDS) list.append(element("li", "plain", `and ${words.length - MAX_WORDS} more`));
  if (!words.length) list.append(element("li", "plain", "no known word speaks for or against it"));
  if (!explanation.exact && words.length) list.append(element("li", "plain", "estimated"));
  return list;
}

/** Draw marks behind the text. Spans count characters as Python does, so the text is split by code points. */
function showMarks(words) {
  const characters = Array.from(byId("text").value);
  const strongest = Math.max(...words.map((word) => Math.abs(word.contribution)), 1e-9);
  const spans = words
    .filter((word) => Math.abs(word.contribution) >= WEAKEST_MARK * strongest)
    .flatMap((word) => word.spans.map(([begin, end]) => ({ begin, end, contribution: word.contribution })))
    .sort((a, b) => a.begin - b.begin || b.end - a.end);
  const nodes = [];
  let at = 0;
  for (const { begin, end, contribution } of spans) {
    if (end <= at || begin >= characters.length) continue;
    const from = Math.max(begin, at);
    nodes.push(document.createTextNode(characters.slice(at, from).join("")));
    const mark = element("mark", contribution < 0 ? "against" : "for", characters.slice(from, end).join(""));
    mark.style.setProperty("--strength", (0.06 + 0.49 * (Math.abs(contribution) / strongest)).toFixed(3));
    nodes.push(mark);
    at = end;
  }
  // The last line needs an end of its own to be as high as in the text area.
  nodes.push(document.createTextNode(`${characters.slice(at).join("")}\n`));
  byId("marks").replaceChildren(...(spans.length ? nodes : []));
  alignMarks();
}

function alignMarks() {
  const marks = byId("marks");
  marks.style.height = `${byId("text").offsetHeight}px`;
  marks.scrollTop = byId("text").scrollTop;
}

// ---- label search ----------------------------------------------------------------------------------------------

let searchTimer = 0;
let searching = null;

function closeSearch() {
  clearTimeout(searchTimer);
  byId("found").hidden = true;
  byId("query").setAttribute("aria-expanded", "false");
  byId("query").removeAttribute("aria-activedescendant");
}

async function search() {
  const query = byId("query").value.trim();
  if (!query) {
    closeSearch();
    return;
  }
  if (searching) searching.abort();
  searching = new AbortController();
  try {
    const { answer } = await call(`api/labels?query=${encodeURIComponent(query)}&limit=20`, null, searching.signal);
    const items = answer.labels.map((name, i) => {
      const item = element("li", "", name);
      item.id = `found-${i}`;
      item.setAttribute("role", "option");
      item.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        ask(name);
      });
      return item;
    });
    if (!items.length) items.push(element("li", "none", "No label has this in its name."));
    byId("found").replaceChildren(...items);
    byId("found").hidden = false;
    byId("query").setAttribute("aria-expanded", "true");
    select(0);
  } catch (error) {
    showError(error);
  }
}

const options = () => [...byId("found").querySelectorAll("[role=option]")];
const selected = () => options().findIndex((item) => item.getAttribute("aria-selected") === "true");

function select(i) {
  const items = options();
  if (!items.length) return;
  const at = (i + items.length) % items.length;
  items.forEach((item, j) => item.setAttribute("aria-selected", String(j === at)));
  items[at].scrollIntoView({ block: "nearest" });
  byId("query").setAttribute("aria-activedescendant", items[at].id);
}

/** Show a label's score and words for the text, whether or not the model proposed it. */
async function ask(name) {
  closeSearch();
  byId("query").value = "";
  const text = byId("text").value;
  if (!text.trim()) {
    showError(new ServiceError("Write a text first; then ask about a label.", 0));
    return;
  }
  if (text !== state.taggedText) await tagNow();
  if (!rowOf(name)) {
    try {
      const known = state.labels.find((label) => label.label === name);
      if (known) {
        state.asked.push(known);
      } else {
        const [tagged, explained] = await Promise.all([
          call("api/tag", { text, top_k: 1, include: [name] }),
          call("api/explain", { text, label: name }),
        ]);
        state.explanations.set(name, explained.answer);
        const found = tagged.answer.labels[0];
        state.asked.push(found || { label: name, score: explained.answer.score, proba: null });
      }
      showLabels();
      clearError();
    } catch (error) {
      showError(error);
      return;
    }
  }
  rowOf(name)?.focus();
}

// ---- model card, examples, copying -----------------------------------------------------------------------------

const words = (key) => key.replace(/^n_/, "").replaceAll("_", " ");
const CARD_ORDER = ["metrics", "label_counts", "calibration"];  // what people look for before parameters

function formatFact(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(4)));
  if (Array.isArray(value)) return value.map(formatFact).join(", ");
  return String(value);
}

/** Put measures such as P@1, P@3, P@5 into one row. */
function joinMeasures(facts) {
  const rows = new Map();
  for (const [key, value] of Object.entries(facts)) {
    const [, name, k] = /^(.+)@(\d+)$/.exec(key) || [];
    if (name === undefined) return facts;
    rows.set(name, [...(rows.get(name) || []), [k, value]]);
  }
  return Object.fromEntries(
    [...rows].map(([name, pairs]) => [
      `${name} @${pairs.map(([k]) => k).join(", ")}`,
      pairs.map(([, value]) => Number(value).toFixed(1)).join(" · "),
    ]),
  );
}

function cardRows(facts, prefix = "") {
  const plain = Object.entries(facts).filter(([, value]) => value === null || typeof value !== "object" || Array.isArray(value));
  const groups = Object.entries(facts).filter(([, value]) => value !== null && typeof value === "object" && !Array.isArray(value));
  const place = ([key]) => (CARD_ORDER.indexOf(key) + CARD_ORDER.length + 1) % (CARD_ORDER.length + 1);
  groups.sort((a, b) => place(a) - place(b));
  const nodes = plain.flatMap(([key, value]) => [element("dt", "", words(key)), element("dd", "", formatFact(value))]);
  for (const [key, value] of groups) {
    const title = prefix ? `${prefix}, ${words(key)}` : words(key);
    const rows = cardRows(joinMeasures(value), title);
    if (rows.length) nodes.push(element("dt", "group", title), ...rows);
  }
  return nodes;
}

async function loadModel() {
  try {
    const { answer } = await call("api/model");
    state.version = answer.version;
    const card = answer.card;
    byId("card-body").replaceChildren(...cardRows({ ...card, version: answer.version }));
    const sizes = [["n_labels", "labels"], ["n_features", "features"], ["n_rows", "training texts"]]
      .filter(([key]) => typeof card[key] === "number")
      .map(([key, name]) => `${card[key].toLocaleString("en")} ${name}`);
    byId("model-line").textContent = [card.estimator, ...sizes].filter(Boolean).map(formatFact).join(" · ");
    const examples = await call("api/examples");
    byId("examples").replaceChildren(...examples.answer.texts.slice(0, 5).map(exampleButton));
    byId("examples-box").hidden = !examples.answer.texts.length;
    clearError();
  } catch (error) {
    showError(error);
  }
}

function exampleButton(text) {
  const button = element("button", "", text.trim().replace(/\s+/g, " ").slice(0, 160));
  button.type = "button";
  button.addEventListener("click", () => {
    byId("text").value = text;
    textChanged(0);
    byId("text").scrollTop = 0;
    byId("text").focus();
  });
  return button;
}

/** Another model may have taken the place of the one this page was loaded from. */
function noteVersion(version) {
  if (version && state.version && version !== state.version) {
    state.version = version;
    state.explanations.clear();
    loadModel();
  }
}

async function copyJson() {
  const labels = [...state.labels.filter(isShown), ...state.asked];
  const json = JSON.stringify({ text: state.taggedText, labels, known_words: state.knownWords }, null, 2);
  try {
    await navigator.clipboard.writeText(json);
  } catch {
    // Without TLS browsers offer no clipboard except on this machine.
    const area = element("textarea");
    area.value = json;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  byId("copy").textContent = "Copied";
  setTimeout(() => { byId("copy").textContent = "Copy as JSON"; }, 1500);
}

// ---- events ----------------------------------------------------------------------------------------------------

function textChanged(delay = WAIT_MS) {
  const n = Array.from(byId("text").value).length;
  byId("text-size").textContent = n ? `${n.toLocaleString("en")} characters` : "";
  showMarks([]);
  tagSoon(delay);
}

function thresholdChanged() {
  const share = Number(byId("threshold").value) / 1000;
  state.threshold = share === 0 ? null : state.low + share * (state.high - state.low);
  byId("threshold-value").textContent = state.threshold === null ? "any" : formatValue(state.threshold);
  showLabels();
}

function moveInList(event) {
  const rows = [...byId("labels").children];
  const at = rows.indexOf(document.activeElement);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (at < 0 || !step) return;
  event.preventDefault();
  const next = rows[Math.max(0, Math.min(rows.length - 1, at + step))];
  rows.forEach((row) => { row.tabIndex = row === next ? 0 : -1; });
  next.focus();
}

function searchKey(event) {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    select(selected() + (event.key === "ArrowDown" ? 1 : -1));
  } else if (event.key === "Enter") {
    event.preventDefault();
    options()[selected()] && ask(options()[selected()].textContent);
  } else if (event.key === "Escape") {
    closeSearch();
  }
}

function pageKey(event) {
  const isWriting = /^(TEXTAREA|INPUT)$/.test(document.activeElement?.tagName || "");
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    tagNow();
  } else if (event.key === "/" && !isWriting && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    byId("query").focus();
  } else if (event.key === "Escape" && !byId("card").open) {
    pointAt(null);
    byId("text").focus();
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("longtail-theme", theme);
}

function start() {
  const theme = localStorage.getItem("longtail-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  byId("theme").addEventListener("click", () => {
    const isDark = getComputedStyle(document.documentElement).colorScheme === "dark";
    setTheme(isDark ? "light" : "dark");
  });
  byId("text").addEventListener("input", () => textChanged());
  byId("text").addEventListener("scroll", alignMarks);
  new ResizeObserver(alignMarks).observe(byId("text"));
  byId("threshold").addEventListener("input", thresholdChanged);
  byId("auto").addEventListener("change", () => {
    byId("threshold").disabled = byId("auto").checked;
    tagNow();
  });
  byId("copy").addEventListener("click", copyJson);
  byId("labels").addEventListener("keydown", moveInList);
  byId("labels").addEventListener("focusout", (event) => {
    if (!byId("labels").contains(event.relatedTarget) && event.relatedTarget) pointAt(null);
  });
  byId("query").addEventListener("input", () => {
    clearTimeout(searchTimer);
    searchTimer = setTimeout(search, WAIT_MS);
  });
  byId("query").addEventListener("keydown", searchKey);
  byId("query").addEventListener("blur", closeSearch);
  byId("card-open").addEventListener("click", () => byId("card").showModal());
  byId("card-close").addEventListener("click", () => byId("card").close());
  byId("card").addEventListener("click", (event) => { if (event.target === byId("card")) byId("card").close(); });
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem("longtail-key", byId("key").value.trim());
    byId("key").value = "";
    clearError();
    loadModel();
    tagNow();
  });
  document.addEventListener("keydown", pageKey);
  loadModel();
  if (byId("text").value) textChanged(0);
}

start();

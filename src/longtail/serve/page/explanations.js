// Why a label was proposed: the words that speak for and against it, and where they are in the text.

import { button, byId, element } from "./dom.js";
import { rowOf } from "./labels.js";
import { call, inLanguage, showError } from "./service.js";
import { nameOf, state } from "./state.js";

const MAX_WORDS = 12;
const WEAKEST_MARK = 0.08;  // of the strongest; weaker words would only make the text restless
const isNarrow = matchMedia("(max-width: 820px)");

let pointTimer = 0;

/** Mark the words that speak for a label; a label that is only passed over costs no request. */
export function pointAt(name) {
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
      const { answer } = await call("api/explain", { body: { text, label: name, ...inLanguage() } });
      if (text !== state.taggedText) return;
      state.explanations.set(name, answer);
      if (state.current === name) showExplanation(name, answer);
    } catch (error) {
      if (error.status !== 422) showError(error);  // 422: a label that the user added and the model does not know
    }
  }, 60);
}

/** The words stand under the text, where they move nothing; on a phone in the row, which was tapped and stays. */
function showExplanation(name, explanation) {
  const row = rowOf(name);
  if (isNarrow.matches) {
    if (row && !row.querySelector(".words")) row.append(wordList(explanation));
  } else {
    const title = element("h3", "", "Why ");
    title.append(element("strong", "", nameOf({ label: name, name: explanation.name })), "?");
    byId("why").replaceChildren(title, wordList(explanation));
  }
  if (byId("text").value === state.taggedText) showMarks(explanation.words);
}

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;

function wordList(explanation) {
  const words = [...explanation.words].sort((a, b) => Math.abs(b.contribution) - Math.abs(a.contribution));
  const list = element("ul", "words");
  for (const word of words.slice(0, MAX_WORDS)) {
    const item = element("li", word.contribution < 0 ? "against" : "for");
    item.append(button("word", `${word.word} ${signed(word.contribution)}`, () => showPlace(word)));
    list.append(item);
  }
  const rest = words.slice(MAX_WORDS).reduce((sum, word) => sum + word.contribution, explanation.rest || 0);
  if (words.length > MAX_WORDS) list.append(element("li", "plain", `${words.length - MAX_WORDS} more ${signed(rest)}`));
  if (!words.length) list.append(element("li", "plain", "no known word speaks for or against it"));
  list.append(element("li", "plain bias", `bias ${signed(explanation.bias)}`));
  if (!explanation.exact && words.length) list.append(element("li", "plain", "estimated"));
  return list;
}

const lastPlace = new Map();  // word: index of the place that was shown last

/** Select a word in the text; each click goes on to its next place. */
function showPlace(word) {
  const area = byId("text");
  if (!word.spans.length || area.value !== state.taggedText) return;
  const at = ((lastPlace.get(word.word) ?? -1) + 1) % word.spans.length;
  lastPlace.set(word.word, at);
  // Spans count characters as Python does; a text area counts UTF-16 units.
  const characters = Array.from(area.value);
  const [begin, end] = word.spans[at].map((place) => characters.slice(0, place).join("").length);
  area.focus();
  area.setSelectionRange(begin, end);
  const mark = [...byId("marks").querySelectorAll("mark")].find((node) => Number(node.dataset.begin) === word.spans[at][0]);
  if (mark) area.scrollTop = Math.max(0, mark.offsetTop - area.clientHeight / 2);
  alignMarks();
}

/** Draw marks behind the text. Spans count characters as Python does, so the text is split by code points. */
export function showMarks(words) {
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
    mark.dataset.begin = String(begin);
    mark.style.setProperty("--strength", (0.06 + 0.49 * (Math.abs(contribution) / strongest)).toFixed(3));
    nodes.push(mark);
    at = end;
  }
  // The last line needs an end of its own to be as high as in the text area.
  nodes.push(document.createTextNode(`${characters.slice(at).join("")}\n`));
  byId("marks").replaceChildren(...(spans.length ? nodes : []));
  alignMarks();
}

export function alignMarks() {
  const marks = byId("marks");
  marks.style.height = `${byId("text").offsetHeight}px`;
  marks.scrollTop = byId("text").scrollTop;
}

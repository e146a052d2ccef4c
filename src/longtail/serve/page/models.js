// Which model answers: its card, the other models of the service, and their labels side by side.

import { byId, element } from "./dom.js";
import { call, inLanguage, keyName } from "./service.js";
import { nameOf, state } from "./state.js";
import { choice } from "./tagging.js";

const DATA = ["estimator", "n_labels", "n_rows", "n_features", "evaluated_on", "trained_at", "version"];
const MEASURED = ["metrics", "label_counts", "calibration"];

const words = (key) => key.replace(/^n_/, "").replaceAll("_", " ");

function formatFact(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(4)));
  if (Array.isArray(value)) return value.map(formatFact).join(", ");
  if (typeof value === "object") return Object.entries(value).map(([key, inner]) => `${words(key)} ${formatFact(inner)}`).join(", ");
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

const isGroup = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function factRows(facts) {
  return Object.entries(facts).flatMap(([key, value]) => [element("dt", "", words(key)), element("dd", "", formatFact(value))]);
}

/** Accuracy and data come first; parameters are there for those who open them. */
export function showCard(card, version) {
  const facts = { ...card, version };
  const list = element("dl");
  for (const key of MEASURED) {
    if (!isGroup(facts[key]) || !Object.keys(facts[key]).length) continue;
    list.append(element("dt", "group", words(key)), ...factRows(joinMeasures(facts[key])));
  }
  list.append(element("dt", "group", "data"));
  list.append(...factRows(Object.fromEntries(DATA.filter((key) => facts[key] !== undefined && facts[key] !== null).map((key) => [key, facts[key]]))));
  const rest = Object.fromEntries(Object.entries(facts).filter(([key]) => !DATA.includes(key) && !MEASURED.includes(key)));
  const details = element("details");
  const inner = element("dl");
  for (const [key, value] of Object.entries(rest)) {
    if (isGroup(value)) inner.append(element("dt", "group", words(key)), ...factRows(value));
    else inner.append(...factRows({ [key]: value }));
  }
  details.append(element("summary", "", "Parameters"), inner);
  byId("card-body").replaceChildren(list, details);
  const sizes = [["n_labels", "labels"], ["n_features", "features"], ["n_rows", "training texts"]]
    .filter(([key]) => typeof card[key] === "number")
    .map(([key, name]) => `${card[key].toLocaleString("en")} ${name}`);
  byId("model-line").textContent = [card.estimator, ...sizes].filter(Boolean).map(formatFact).join(" · ");
}

/** The address of the service: this page may be that of one of its models. */
function serviceAddress() {
  return location.pathname.replace(/\/models\/[^/]+\/?$/, "/");
}

export function showModels(names) {
  if (names.length < 2 || !byId("models").hidden) return;
  const here = /\/models\/([^/]+)\/?$/.exec(location.pathname)?.[1] ?? names[0];
  const address = (name) => `${serviceAddress()}models/${encodeURIComponent(name)}/`;
  byId("model").replaceChildren(...names.map((name) => new Option(name, name, name === here, name === here)));
  byId("compare").replaceChildren(
    new Option("nothing", ""), ...names.filter((name) => name !== here).map((name) => new Option(name, name)),
  );
  byId("models").hidden = false;
  byId("model").addEventListener("change", () => {
    location.href = `${address(byId("model").value)}${linkTo(byId("text").value)}`;
  });
  byId("compare").addEventListener("change", () => compare(address));
  state.onTagged = () => compare(address);
  byId("compared-key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(keyName(address(byId("compare").value)), byId("compared-key").value.trim());
    byId("compared-key").value = "";
    compare(address);
  });
}

let comparing = null;

/** Ask for the same as here; a model without probabilities or without this vocabulary cannot do all of it. */
async function tagOther(path, signal) {
  const ask = async (more) => (await call(path, { body: { text: state.taggedText, ...more }, signal, isOtherModel: true })).answer;
  try {
    return await ask(choice());
  } catch (error) {
    if (error.status !== 422) throw error;
    return ask({ top_k: choice().top_k, ...inLanguage() });
  }
}

async function compare(address) {
  const name = byId("compare").value;
  byId("compared").hidden = !name || !state.taggedText;
  if (byId("compared").hidden) return;
  comparing?.abort();
  comparing = new AbortController();
  byId("compared-title").textContent = name;
  const list = byId("compared-labels");
  try {
    const answer = await tagOther(`${address(name)}api/tag`, comparing.signal);
    byId("compared-key-form").hidden = true;
    const here = new Set(state.labels.map((label) => label.label));
    const isEnough = (label) => state.threshold === null || (label.proba ?? label.score) >= state.threshold;
    list.replaceChildren(...answer.labels.filter(isEnough).map((label) => {
      const item = element("li", here.has(label.label) ? "" : "only-here");
      const value = label.proba === null ? label.score.toFixed(3) : `${(100 * label.proba).toFixed(1)} %`;
      item.append(element("span", "", nameOf(label)), element("span", "label-score", value));
      return item;
    }));
  } catch (error) {
    if (error.name === "AbortError") return;
    list.replaceChildren(element("li", "none", error.message));
    byId("compared-key-form").hidden = error.status !== 401;
  }
}

const MAX_LINK_CHARS = 8_000;

/** The part of an address after “#” stays in the browser: the text is not sent to a server. */
export const linkTo = (text) => (text && text.length <= MAX_LINK_CHARS ? `#text=${encodeURIComponent(text)}` : "");

export function textOfLink() {
  try {
    return location.hash.startsWith("#text=") ? decodeURIComponent(location.hash.slice(6)) : "";
  } catch {
    return "";
  }
}

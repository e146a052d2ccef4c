// What a model with a vocabulary offers more: names in several languages, labels below one, labels without examples.

import { byId } from "./dom.js";
import { state } from "./state.js";

const listeners = [];

/** Call a function when names must be shown in another language, or other labels are wanted. */
export function onVocabularyChoice(callback) {
  listeners.push(callback);
}

const changed = () => listeners.forEach((callback) => callback());

export function startVocabulary({ languages, language, unseen }) {
  const has = languages !== null && languages !== undefined;
  state.hasVocabulary = has;
  byId("vocabulary-box").hidden = !has;
  byId("unseen-box").hidden = !unseen;
  if (!unseen) byId("unseen").checked = false;
  byId("language-box").hidden = !has || languages.length < 2;
  if (byId("language-box").hidden || byId("language").options.length) return;
  const wanted = localStorage.getItem("longtail-language") || language || "";
  if (!languages.includes(wanted)) byId("language").append(new Option("any", ""));
  byId("language").append(...languages.map((name) => new Option(name, name, name === wanted, name === wanted)));
  useLanguage();
  // A text may have been tagged before this answer: then its names are in the service's own language.
  if (state.language !== (language ?? "")) changed();
}

function useLanguage() {
  state.language = byId("language").value;
  state.explanations.clear();
}

/** Propose only labels below this one; null for all. */
export function onlyBelow(label, name) {
  state.below = label ?? "";
  byId("below-box").hidden = !state.below;
  byId("below-name").textContent = name ?? "";
  changed();
}

export function listenToVocabulary() {
  byId("language").addEventListener("change", () => {
    useLanguage();
    localStorage.setItem("longtail-language", state.language);
    changed();
  });
  byId("below-all").addEventListener("click", () => onlyBelow(null));
}

// The page of a served model: start, keys, theme. The other modules are its parts.

import { forgetExamples, listenToBrowser } from "./browse.js";
import { addMissing, judgeFocused, listenToCorrections, save, startCorrections, turnVerdict, undo } from "./corrections.js";
import { button, byId, copyText } from "./dom.js";
import { alignMarks, pointAt } from "./explanations.js";
import { moveInList, rowOf, shownLabels, showLabels } from "./labels.js";
import { linkTo, showCard, showModels, textOfLink } from "./models.js";
import { labelSearch } from "./search.js";
import { call, clearError, inLanguage, keyName, onNewVersion, ServiceError, setVersion, showError } from "./service.js";
import { state } from "./state.js";
import { choice, listenToControls, showText, tagNow, textChanged } from "./tagging.js";
import { listenToUpload } from "./upload.js";
import { listenToVocabulary, onVocabularyChoice, startVocabulary } from "./vocabulary.js";
import { listenToWorklist, startWorklist, step } from "./worklist.js";

const N_EXAMPLES = 5;

async function loadModel() {
  try {
    const { answer } = await call("api/model");
    setVersion(answer.version);
    showCard(answer.card, answer.version);
    showModels(answer.models);
    startVocabulary(answer);
    startCorrections(Boolean(answer.feedback));
    const examples = await call("api/examples");
    byId("examples").replaceChildren(...examples.answer.texts.slice(0, N_EXAMPLES).map(exampleButton));
    byId("examples-box").hidden = !examples.answer.texts.length;
    clearError();
    await startWorklist(Boolean(answer.queue));
  } catch (error) {
    showError(error);
  }
}

function exampleButton(text) {
  return button("", text.trim().replace(/\s+/g, " ").slice(0, 160), () => showText(text));
}

/** Show a label's score and words for the text, whether or not the model proposed it. */
async function ask(name) {
  const text = byId("text").value;
  if (!text.trim()) {
    showError(new ServiceError("Write a text first; then ask about a label.", 0));
    return;
  }
  if (text !== state.taggedText) await tagNow();
  if (!rowOf(name)) {
    try {
      const plainly = { below: null, unseen: false, parents: false };
      const known = state.labels.find((label) => label.label === name);
      if (known) state.asked.push(known);
      else {
        const [tagged, explained] = await Promise.all([
          call("api/tag", { body: { text, ...choice(), ...plainly, top_k: 1, threshold: null, include: [name] } }),
          call("api/explain", { body: { text, label: name, ...inLanguage() } }),
        ]);
        state.explanations.set(name, explained.answer);
        state.asked.push(tagged.answer.labels[0] || { ...explained.answer, proba: null });
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

/** With Alt the keys also work while writing; keys are identified by position, because Alt changes the letters they type. */
const ALT_KEYS = {
  KeyS: save,
  KeyZ: undo,
  KeyN: () => step(1),
  KeyP: () => step(-1),
  KeyA: () => byId("add-query").focus(),
};

function pageKey(event) {
  const isWriting = /^(TEXTAREA|INPUT|SELECT)$/.test(document.activeElement?.tagName || "");
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
  const place = /^Digit([1-9])$/.exec(event.code)?.[1];
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    tagNow();
  } else if (event.altKey && !event.ctrlKey && !event.metaKey && (place || ALT_KEYS[event.code])) {
    event.preventDefault();
    if (place) turnVerdict(Number(place) - 1);
    else ALT_KEYS[event.code]();
  } else if (isPlain && !isWriting && (event.key === "y" || event.key === "n")) {
    if (judgeFocused(event.key === "y" ? "accepted" : "rejected")) event.preventDefault();
  } else if (event.key === "/" && isPlain && !isWriting) {
    event.preventDefault();
    byId("query").focus();
  } else if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    pointAt(null);
    byId("text").focus();
  }
}

function startTheme() {
  const theme = localStorage.getItem("longtail-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  byId("theme").addEventListener("click", () => {
    const isDark = getComputedStyle(document.documentElement).colorScheme === "dark";
    document.documentElement.dataset.theme = isDark ? "light" : "dark";
    localStorage.setItem("longtail-theme", document.documentElement.dataset.theme);
  });
}

function listenToDialogs() {
  byId("card-open").addEventListener("click", () => byId("card").showModal());
  byId("card-close").addEventListener("click", () => byId("card").close());
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  }
}

function listenToLabels() {
  byId("labels").addEventListener("keydown", moveInList);
  byId("labels").addEventListener("focusout", (event) => {
    const isNear = [byId("labels"), byId("why")].some((node) => node.contains(event.relatedTarget));
    if (!isNear && event.relatedTarget) pointAt(null);
  });
  byId("copy").addEventListener("click", () => {
    const answer = { text: state.taggedText, labels: shownLabels(), known_words: state.knownWords };
    copyText(JSON.stringify(answer, null, 2), byId("copy"));
  });
  byId("link").addEventListener("click", () => {
    const hash = linkTo(byId("text").value);
    if (!hash) showError(new ServiceError("This text is too long for a link (8,000 characters at most).", 0));
    else copyText(`${location.origin}${location.pathname}${hash}`, byId("link"));
  });
}

function start() {
  startTheme();
  listenToControls();
  listenToLabels();
  listenToDialogs();
  listenToCorrections();
  listenToUpload();
  listenToWorklist(showText);
  listenToBrowser(ask);
  listenToVocabulary();
  onVocabularyChoice(tagNow);
  labelSearch("query", "found", { choose: ask });
  labelSearch("add-query", "add-found", { choose: addMissing, chooseNew: (name) => addMissing(name) });
  byId("text").addEventListener("scroll", alignMarks);
  new ResizeObserver(alignMarks).observe(byId("text"));
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(keyName(), byId("key").value.trim());
    byId("key").value = "";
    clearError();
    loadModel();
    tagNow();
  });
  document.addEventListener("keydown", pageKey);
  onNewVersion(() => {
    state.explanations.clear();
    forgetExamples();
    loadModel();
  });
  loadModel();
  window.addEventListener("hashchange", () => { if (textOfLink()) showText(textOfLink()); });
  if (textOfLink()) byId("text").value = textOfLink();
  if (byId("text").value) textChanged(0);
}

start();

// Tag the texts of a file: choose it, watch the progress, download the result.

import { byId, download, formatCount } from "./dom.js";
import { callPatiently, showError, clearError } from "./service.js";
import { readTexts, writeCsv } from "./tables.js";
import { choice } from "./tagging.js";
import { workThrough } from "./worklist.js";

const BATCH = 16;
const MAX_BYTES = 64 << 20;
const MAX_TEXTS = 100_000;

const upload = { name: "", rows: [], texts: [], running: null };

export function listenToUpload() {
  byId("file").addEventListener("change", async () => {
    const [file] = byId("file").files;
    byId("file").value = "";
    if (file) await open(file);
  });
  byId("upload-stop").addEventListener("click", () => upload.running?.abort());
  byId("download-csv").addEventListener("click", () => download(`${upload.name}-tagged.csv`, "text/csv", writeCsv(upload.rows)));
  byId("download-jsonl").addEventListener("click", () => {
    download(`${upload.name}-tagged.jsonl`, "application/jsonl", upload.rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  });
  byId("upload-work").addEventListener("click", () => workThrough(upload.texts));
}

async function open(file) {
  try {
    if (file.size > MAX_BYTES) throw new Error("The file is larger than 64 MB; use `longtail predict` for it.");
    const { texts, from } = readTexts(file.name, await file.text());
    if (!texts.length) throw new Error("The file has no texts.");
    if (texts.length > MAX_TEXTS) throw new Error(`The file has more than ${formatCount(MAX_TEXTS, "text")}; use \`longtail predict\` for it.`);
    clearError();
    upload.name = file.name.replace(/\.[^.]+$/, "");
    upload.texts = texts;
    await tagAll(`${formatCount(texts.length, "text")} from ${from}`);
  } catch (error) {
    showError(error);
  }
}

async function tagAll(understood) {
  upload.running?.abort();
  const mine = new AbortController();
  upload.running = mine;
  upload.rows = [];
  byId("upload").hidden = false;
  showProgress(understood, true);
  try {
    for (let i = 0; i < upload.texts.length; i += BATCH) {
      upload.rows.push(...await tagBatch(upload.texts.slice(i, i + BATCH), mine.signal));
      showProgress(understood, true);
    }
  } catch (error) {
    showError(error);
  } finally {
    if (upload.running === mine) upload.running = null;
    showProgress(understood, false);
  }
}

/** A text that the service refuses must not cost the others their labels. */
async function tagBatch(texts, signal) {
  try {
    const { answer } = await callPatiently("api/tag-batch", { body: { texts, ...choice() }, signal });
    return texts.map((text, i) => ({ text, labels: answer.rows[i] }));
  } catch (error) {
    if (error.name === "AbortError" || ![413, 422].includes(error.status)) throw error;
    if (texts.length === 1) return [{ text: texts[0], labels: [], error: error.message }];
    const rows = [];
    for (const text of texts) rows.push(...await tagBatch([text], signal));
    return rows;
  }
}

function showProgress(understood, isRunning) {
  const n = upload.texts.length;
  const failed = upload.rows.filter((row) => row.error).length;
  byId("upload-bar").max = n;
  byId("upload-bar").value = upload.rows.length;
  byId("upload-line").textContent =
    `${understood} · ${upload.rows.length.toLocaleString("en")} tagged${failed ? `, ${failed} refused` : ""}`;
  byId("upload-stop").hidden = !isRunning;
  for (const id of ["download-csv", "download-jsonl", "upload-work"]) byId(id).disabled = isRunning || !upload.rows.length;
}

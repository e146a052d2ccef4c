// Texts out of uploaded files, and tables for download.

import { nameOf } from "./state.js";

/** Rows of a CSV text; the delimiter is the one of comma, semicolon and tab that the first line has most of. */
export function parseCsv(content) {
  const firstLine = content.slice(0, content.search(/\r?\n|$/));
  const counted = [",", ";", "\t"].map((sign) => [firstLine.split(sign).length, sign]);
  const delimiter = counted.sort((a, b) => b[0] - a[0])[0][1];
  const rows = [];
  let row = [];
  let cell = "";
  let isQuoted = false;
  for (let i = 0; i < content.length; i += 1) {
    const sign = content[i];
    if (isQuoted) {
      if (sign === '"' && content[i + 1] === '"') {
        cell += '"';
        i += 1;
      } else if (sign === '"') isQuoted = false;
      else cell += sign;
    } else if (sign === '"' && cell === "") isQuoted = true;
    else if (sign === delimiter) {
      row.push(cell);
      cell = "";
    } else if (sign === "\n" || sign === "\r") {
      if (sign === "\r" && content[i + 1] === "\n") i += 1;
      rows.push([...row, cell]);
      row = [];
      cell = "";
    } else cell += sign;
  }
  if (isQuoted) throw new Error("A quoted cell of the CSV file does not end.");
  if (cell || row.length) rows.push([...row, cell]);
  return rows.filter((cells) => cells.length > 1 || cells[0] !== "");
}

const TEXT_NAMES = ["text", "body", "content", "description", "abstract", "title"];

function textsOfCsv(content) {
  const [head, ...rows] = parseCsv(content);
  if (!head) return { texts: [], from: "" };
  const names = head.map((name) => name.trim().toLowerCase());
  let column = TEXT_NAMES.map((name) => names.indexOf(name)).find((at) => at >= 0);
  if (column === undefined) {
    if (head.length > 1) {
      throw new Error(`The CSV file needs a column called “text”; its columns are ${head.map((name) => `“${name}”`).join(", ")}.`);
    }
    return { texts: [head, ...rows].map((cells) => cells[0]), from: "the only column" };
  }
  return { texts: rows.map((cells) => cells[column] ?? ""), from: `column “${head[column]}”` };
}

function textsOfJson(records) {
  const texts = records.map((record, i) => {
    const text = typeof record === "string" ? record : TEXT_NAMES.map((name) => record?.[name]).find((value) => typeof value === "string");
    if (text === undefined) throw new Error(`Record ${i + 1} has no “text”.`);
    return text;
  });
  return { texts, from: "field “text”" };
}

function parseLine(line, i) {
  try {
    return JSON.parse(line);
  } catch {
    throw new Error(`Line ${i + 1} is not JSON.`);
  }
}

/** Read the texts of a file by its name: .csv and .tsv, .jsonl and .json, else a text per line. */
export function readTexts(name, content) {
  const clean = content.replace(/^\uFEFF/, "");
  const ending = name.toLowerCase().split(".").at(-1);
  if (ending === "csv" || ending === "tsv") return textsOfCsv(clean);
  const lines = clean.split(/\r?\n/).filter((line) => line.trim());
  if (ending === "jsonl" || ending === "ndjson") return textsOfJson(lines.map(parseLine));
  if (ending === "json") {
    const value = JSON.parse(clean);
    return textsOfJson(Array.isArray(value) ? value : [value]);
  }
  return { texts: lines, from: "a text per line" };
}

const cellOf = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);

/** Tagged rows as CSV: text, labels joined by “|”, their names if the model has a vocabulary, probabilities or scores. */
export function writeCsv(rows) {
  const hasNames = rows.some(({ labels }) => (labels || []).some((label) => label.name !== null));
  const lines = rows.map(({ text, labels, error }) => [
    text,
    (labels || []).map((label) => label.label).join("|"),
    ...(hasNames ? [(labels || []).map(nameOf).join("|")] : []),
    (labels || []).map((label) => (label.proba ?? label.score).toFixed(4)).join("|"),
    error || "",
  ].map(cellOf).join(","));
  return [`text,labels,${hasNames ? "names," : ""}values,error`, ...lines].join("\r\n").concat("\r\n");
}

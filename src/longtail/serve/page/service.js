// Requests to the service that served this page, or to another model of the same service.

import { byId } from "./dom.js";
import { state } from "./state.js";

export class ServiceError extends Error {
  constructor(message, status, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

const seen = { version: null, onChange: () => {} };

/** Call a function when another model has taken the place of the one this page was loaded from. */
export function onNewVersion(callback) {
  seen.onChange = callback;
}

/** The language of names to ask for, if the user chose one. */
export const inLanguage = () => (state.language ? { language: state.language } : {});

export function setVersion(version) {
  seen.version = version;
}

/** Where the key of a model is kept for this session; models of one service may have different keys. */
export const keyName = (path = "") => `longtail-key ${new URL(path, location.href).pathname.replace(/api\/.*$/, "")}`;

export async function call(path, { body, method, signal, isOtherModel = false } = {}) {
  const headers = {};
  const key = sessionStorage.getItem(keyName(path)) || sessionStorage.getItem(keyName());
  if (key) headers["X-API-Key"] = key;
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method: method || (body ? "POST" : "GET"), headers, body: body && JSON.stringify(body), signal,
    });
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
  const version = response.headers.get("Model-Version");
  if (!isOtherModel && version && seen.version && version !== seen.version) {
    seen.version = version;
    seen.onChange();
  }
  return { answer, version, milliseconds: timing ? Number(timing[1]) : null };
}

/** The same, but waits and repeats while the service is busy. */
export async function callPatiently(path, options = {}) {
  for (;;) {
    try {
      return await call(path, options);
    } catch (error) {
      if (error.status !== 503) throw error;
      await new Promise((resolve) => { setTimeout(resolve, 1000 * (error.retryAfter || 1)); });
      options.signal?.throwIfAborted();
    }
  }
}

export function showError(error) {
  if (error.name === "AbortError") return;
  byId("key-form").hidden = error.status !== 401;
  byId("error").textContent = error.message;
  byId("error").hidden = false;
  byId("status").textContent = "";
}

export function clearError() {
  byId("error").hidden = true;
  byId("key-form").hidden = true;
}

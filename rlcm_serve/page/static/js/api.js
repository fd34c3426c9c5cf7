/** Talking to the service: JSON, problems, and streams of server-sent events. */

import { readEvents, StreamBroken } from "./sse.js";

const LOST = "The connection to the service was lost.";

/** What went wrong, as the service says it (RFC 9457), or as the network does (status 0). */
export class Problem extends Error {
  /**
   * @param {{ status?: number, title?: string, detail?: string, type?: string } & Record<string, any>} body
   * @param {number} [retryAfter] seconds the service asks to wait
   */
  constructor(body, retryAfter) {
    super(body.detail ?? body.title ?? "the service did not answer");
    this.name = "Problem";
    /** HTTP status; 0 if the service could not be reached or the connection was lost. */
    this.status = body.status ?? 0;
    this.title = body.title ?? "";
    this.detail = body.detail ?? "";
    /** Last part of the type: "infeasible-alpha", "unauthenticated", "connection-lost", ... */
    this.kind = (body.type ?? "").split(":").pop() ?? "";
    /** Every field of the problem, further ones such as `certified_alphas` included. */
    this.fields = body;
    this.retryAfter = retryAfter;
  }

  /** Whether another key might do: there was none, or it may not do this. */
  get refusesKey() {
    return this.status === 401 || (this.status === 403 && this.kind !== "cross-origin");
  }

  /** @param {string} otherwise @returns {string} what a button says that tries again */
  retryWords(otherwise) {
    if (!this.refusesKey) return otherwise;
    return this.status === 401 ? "Give a key" : "Use another key";
  }
}

/**
 * @typedef {object} Api
 * @property {(path: string, signal?: AbortSignal, withinMs?: number) => Promise<any>} get `withinMs`:
 *   how long the service may take; while a key is asked for, no time passes
 * @property {(path: string, withinMs?: number) => Promise<any>} post without a body
 * @property {(path: string, body: unknown, onEvent: (name: string, data: any) => void,
 *   signal?: AbortSignal) => Promise<void>} events posts, and resolves when the stream has ended
 */

/**
 * A client of the service. All of it raises `Problem`, "connection-lost" where no whole answer came,
 * and AbortError if it was aborted.
 *
 * @param {object} options
 * @param {string | URL} options.base of all paths, which are given without a leading slash
 * @param {() => string | null} options.getKey the API key to send, if there is one
 * @param {(problem: Problem) => Promise<boolean>} options.onKeyNeeded asked after a 401; whether
 *   there is a new key to try again with
 * @param {() => number} [options.silenceMs] for how long a stream may be silent before it is lost
 * @returns {Api}
 */
export function createApi({ base, getKey, onKeyNeeded, silenceMs }) {
  /**
   * @param {string} path
   * @param {RequestInit} init
   * @param {number} [withinMs]
   * @returns {Promise<Response>} one that is good
   */
  async function send(path, init, withinMs) {
    const headers = new Headers(init.headers);
    const key = getKey();
    if (key) headers.set("Authorization", `Bearer ${key}`);
    const signal = limited(init.signal ?? null, withinMs);
    let response;
    try {
      response = await fetch(new URL(path, base), { ...init, headers, signal, cache: "no-store" });
    } catch (error) {
      throw failure(error, "The service cannot be reached.");
    }
    if (response.ok) return response;
    const problem = await problemOf(response);
    if (problem.status === 401 && (await onKeyNeeded(problem))) return send(path, init, withinMs);
    throw problem;
  }

  /**
   * @param {string} path
   * @param {RequestInit} init
   * @param {number} [withinMs]
   */
  async function read(path, init, withinMs) {
    const response = await send(path, init, withinMs);
    try {
      return json(await response.text());
    } catch (error) {
      throw failure(error, LOST);
    }
  }

  return {
    get: (path, signal, withinMs) => read(path, { signal: signal ?? null }, withinMs),
    post: (path, withinMs) => read(path, { method: "POST" }, withinMs),
    async events(path, body, onEvent, signal) {
      const headers = { "Content-Type": "application/json" };
      const response = await send(path, { method: "POST", headers, body: JSON.stringify(body), signal: signal ?? null });
      if (!response.body) throw lost("The service sent no stream.");
      try {
        await readEvents(response.body, (name, data) => onEvent(name, json(data)), silenceMs?.());
      } catch (error) {
        throw error instanceof StreamBroken ? lost(LOST) : error;
      }
    },
  };
}

/**
 * @param {unknown} error
 * @returns {boolean} whether it only says that a request was aborted
 */
export function wasAborted(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

/**
 * @param {AbortSignal | null} signal
 * @param {number} [withinMs]
 */
function limited(signal, withinMs) {
  if (!withinMs) return signal;
  const late = AbortSignal.timeout(withinMs);
  return signal ? AbortSignal.any([signal, late]) : late;
}

/**
 * What a request came to, as a problem; one that was aborted has none.
 *
 * @param {unknown} error
 * @param {string} detail of a network that failed
 */
function failure(error, detail) {
  if (wasAborted(error) || error instanceof Problem) return error;
  const late = error instanceof DOMException && error.name === "TimeoutError";
  return lost(late ? "The service did not answer in time." : detail);
}

/** @param {string} text */
function json(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw lost("The service sent a response that the page cannot read.");
  }
}

/** @param {Response} response */
async function problemOf(response) {
  const wait = Number(response.headers.get("Retry-After")) || undefined;
  const fallback = { status: response.status, title: response.statusText, detail: "" };
  try {
    return new Problem({ ...fallback, ...(await response.json()) }, wait);
  } catch (error) {
    if (wasAborted(error)) throw error;
    return new Problem(fallback, wait);
  }
}

/** @param {string} detail */
function lost(detail) {
  return new Problem({ status: 0, type: "connection-lost", title: "Connection lost", detail });
}

/** Talking to the service: JSON, problems, and streams of server-sent events. */

import { readEvents, StreamBroken } from "./sse.js";

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
}

/**
 * @typedef {object} Api
 * @property {(path: string, signal?: AbortSignal) => Promise<any>} get
 * @property {(path: string, body?: unknown, signal?: AbortSignal) => Promise<any>} post
 * @property {(path: string, body: unknown, onEvent: (name: string, data: any) => void,
 *   signal?: AbortSignal) => Promise<void>} events resolves when the stream has ended. `body` null
 *   asks with GET. Raises Problem, "connection-lost" if it broke, and AbortError if it was aborted.
 */

/**
 * A client of the service. All of it raises `Problem`.
 *
 * @param {object} options
 * @param {string | URL} options.base of all paths, which are given without a leading slash
 * @param {() => string | null} options.getKey the API key to send, if there is one
 * @param {(problem: Problem) => Promise<boolean>} options.onKeyNeeded asked after a 401; whether
 *   there is a new key to try again with
 * @returns {Api}
 */
export function createApi({ base, getKey, onKeyNeeded }) {
  /**
   * @param {string} path
   * @param {RequestInit} init
   * @returns {Promise<Response>} one that is good
   */
  async function send(path, init) {
    const headers = new Headers(init.headers);
    const key = getKey();
    if (key) headers.set("Authorization", `Bearer ${key}`);
    let response;
    try {
      response = await fetch(new URL(path, base), { ...init, headers, cache: "no-store" });
    } catch (error) {
      throw wasAborted(error) ? error : lost("The service cannot be reached.");
    }
    if (response.ok) return response;
    const problem = await problemOf(response);
    if (problem.status === 401 && (await onKeyNeeded(problem))) return send(path, init);
    throw problem;
  }

  return {
    async get(path, signal) {
      return parsed(await send(path, { signal: signal ?? null }));
    },
    async post(path, body, signal) {
      return parsed(await send(path, posting(body, signal)));
    },
    async events(path, body, onEvent, signal) {
      const init = body === null ? { signal: signal ?? null } : posting(body, signal);
      const response = await send(path, init);
      if (!response.body) throw lost("The service sent no stream.");
      try {
        await readEvents(response.body, (name, data) => onEvent(name, JSON.parse(data)));
      } catch (error) {
        throw error instanceof StreamBroken ? lost("The connection to the service was lost.") : error;
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
 * @param {unknown} body
 * @param {AbortSignal} [signal]
 * @returns {RequestInit}
 */
function posting(body, signal) {
  return {
    method: "POST",
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
    body: body === undefined ? null : JSON.stringify(body),
    signal: signal ?? null,
  };
}

/** @param {Response} response */
async function parsed(response) {
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

/** @param {Response} response */
async function problemOf(response) {
  const wait = Number(response.headers.get("Retry-After")) || undefined;
  const fallback = { status: response.status, title: response.statusText, detail: "" };
  try {
    return new Problem({ ...fallback, ...(await response.json()) }, wait);
  } catch {
    return new Problem(fallback, wait);
  }
}

/** @param {string} detail */
function lost(detail) {
  return new Problem({ status: 0, type: "connection-lost", title: "Connection lost", detail });
}

/** Asking the service again and again, while somebody looks, and less often while it fails. */

import { Problem } from "../api.js";

export const EVERY_MS = 2_000;
const LONGEST_MS = 30_000;

/**
 * @template Data
 * @typedef {object} Polling
 * @property {(signal: AbortSignal) => Promise<Data>} ask
 * @property {(data: Data) => void} onData
 * @property {(problem: Problem, waitMs: number | null) => void} onProblem what went wrong, and after how
 *   many milliseconds it is tried again; null if only `start` tries again, as after a refused key
 */

/**
 * A poller at rest. It asks every two seconds; after a failure it waits twice as long each time, up to
 * half a minute, or as long as the service says. While the page is hidden it does nothing.
 *
 * @template Data
 * @param {Polling<Data>} polling
 * @returns {{ start: () => void, stop: () => void }} `start` asks at once
 */
export function createPoller({ ask, onData, onProblem }) {
  let timer = 0;
  let failures = 0;
  let running = false;
  /** @type {AbortController | null} */
  let asking = null;

  async function turn() {
    const mine = (asking = new AbortController());
    let data;
    try {
      data = await ask(mine.signal);
    } catch (error) {
      if (asking === mine) failed(problemOf(error));
      return;
    }
    if (asking !== mine) return;
    failures = 0;
    next(EVERY_MS);
    onData(data);
  }

  /** @param {Problem} problem */
  function failed(problem) {
    const wait = problem.refusesKey ? null : pause(failures, problem.retryAfter);
    failures += 1;
    if (wait === null) stop();
    else next(wait);
    onProblem(problem, wait);
  }

  /** @param {number} ms */
  function next(ms) {
    clearTimeout(timer);
    timer = setTimeout(turn, ms);
  }

  function start() {
    running = true;
    failures = 0;
    rest();
    if (!document.hidden) turn();
  }

  function stop() {
    running = false;
    rest();
  }

  function rest() {
    clearTimeout(timer);
    const left = asking;
    asking = null;
    left?.abort();
  }

  document.addEventListener("visibilitychange", () => {
    if (!running) return;
    if (document.hidden) rest();
    else turn();
  });
  return { start, stop };
}

/**
 * How long to wait after so many failures in a row, in milliseconds.
 *
 * @param {number} failures before this one
 * @param {number} [retryAfter] seconds the service asks for
 */
export function pause(failures, retryAfter) {
  return Math.min(LONGEST_MS, Math.max(EVERY_MS * 2 ** failures, (retryAfter ?? 0) * 1000));
}

/**
 * @param {unknown} error
 * @returns {Problem}
 */
function problemOf(error) {
  if (error instanceof Problem) return error;
  console.error(error);
  return new Problem({ title: "The page failed", detail: String(error) });
}

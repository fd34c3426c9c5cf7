/** Whether questions can be answered now, as `/readyz` says. */

/**
 * @typedef {"unknown" | "ready" | "starting" | "restarting" | "failed" | "stopping" | "degraded" | "gone"} EngineState
 *   "failed": it was given up, and does not come back by itself; "degraded": it answers, but the
 *   database is down, so questions with a key are refused
 * @typedef {{ state: EngineState, stage: string }} EngineNow `stage` is the service's own word
 * @typedef {object} EngineWatch
 * @property {() => EngineNow} now
 * @property {(listener: (now: EngineNow) => void) => () => void} subscribe calls with the state as it
 *   is, and with each new one; what it returns ends it
 * @property {() => Promise<void>} check looks at once, as after a failure
 */

/** @type {EngineState[]} */
const NOT_READY = ["starting", "restarting", "failed", "stopping", "degraded"];
const CALM_MS = 15_000;
const EAGER_MS = 2_000;
const PATIENCE_MS = 10_000;

/**
 * Whether a question can be sent, though it may be refused.
 *
 * @param {EngineNow} now
 */
export function answers({ state }) {
  return state === "ready" || state === "degraded";
}

/**
 * Asks from time to time, more often while the engine is not ready, not while nobody looks.
 *
 * @param {URL} base
 * @returns {EngineWatch}
 */
export function watchEngine(base) {
  /** @type {EngineNow} */
  let now = { state: "unknown", stage: "" };
  /** @type {Set<(now: EngineNow) => void>} */
  const listeners = new Set();
  let timer = 0;

  async function look() {
    clearTimeout(timer);
    if (!document.hidden) tell(await engineNow(base));
    timer = setTimeout(look, now.state === "ready" ? CALM_MS : EAGER_MS);
  }

  /** @param {EngineNow} next */
  function tell(next) {
    if (next.state === now.state && next.stage === now.stage) return;
    now = next;
    for (const listener of listeners) listener(now);
  }

  document.addEventListener("visibilitychange", () => !document.hidden && look());
  look();
  return {
    now: () => now,
    check: look,
    subscribe(listener) {
      listeners.add(listener);
      listener(now);
      return () => listeners.delete(listener);
    },
  };
}

/**
 * @param {URL} base
 * @param {number} [withinMs] later it is taken for gone: on a dead connection no answer would ever come
 * @returns {Promise<EngineNow>}
 */
export async function engineNow(base, withinMs = PATIENCE_MS) {
  try {
    const response = await fetch(new URL("readyz", base), { cache: "no-store", signal: AbortSignal.timeout(withinMs) });
    if (response.ok) return { state: "ready", stage: "" };
    const { state, stage = "" } = await response.json();
    return { state: NOT_READY.find((one) => one === state) ?? "gone", stage };
  } catch {
    return { state: "gone", stage: "" };
  }
}

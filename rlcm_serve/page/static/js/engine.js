/** Whether questions can be answered now, as `/readyz` says. */

/**
 * @typedef {"unknown" | "ready" | "starting" | "restarting" | "stopping" | "gone"} EngineState
 * @typedef {{ state: EngineState, stage: string }} EngineNow `stage` is the service's own word
 * @typedef {object} EngineWatch
 * @property {() => EngineNow} now
 * @property {(listener: (now: EngineNow) => void) => () => void} subscribe calls with the state as it
 *   is, and with each new one; what it returns ends it
 * @property {() => Promise<void>} check looks at once, as after a failure
 */

const CALM_MS = 15_000;
const EAGER_MS = 2_000;

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
    if (!document.hidden) tell(await ask(base));
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
 * @returns {Promise<EngineNow>}
 */
async function ask(base) {
  try {
    const response = await fetch(new URL("readyz", base), { cache: "no-store" });
    if (response.ok) return { state: "ready", stage: "" };
    const { stage = "" } = await response.json().catch(() => ({}));
    if (stage === "stopping") return { state: "stopping", stage };
    // The stages of a restart begin with its reason: "the engine died: starting vLLM".
    return { state: /^the engine died/.test(stage) ? "restarting" : "starting", stage };
  } catch {
    return { state: "gone", stage: "" };
  }
}

/** Waiting for an engine that is starting. */

import { Problem } from "../api.js";
import { answers } from "../engine.js";

/**
 * @typedef {import("../engine.js").EngineNow} EngineNow
 * @typedef {import("../engine.js").EngineWatch} EngineWatch
 */

/**
 * Whether an engine that is not ready is on its way.
 *
 * @param {EngineNow} now
 */
export function willBeReady({ state }) {
  return state === "starting" || state === "restarting";
}

/**
 * Waits until the engine can be asked.
 *
 * @param {EngineWatch} engine one that will be ready
 * @param {AbortSignal} signal
 * @param {(words: string) => void} say how far it is, at each stage
 * @returns {Promise<void>} raises Problem if the engine is given up, and AbortError if it was aborted
 */
export function untilReady(engine, signal, say) {
  return new Promise((resolve, reject) => {
    const end = engine.subscribe((now) => {
      if (answers(now)) finish(resolve);
      else if (now.state !== "failed") say(waitingWords(now));
      else finish(() => reject(new Problem({ status: 503, type: "not-ready", detail: now.stage })));
    });
    const abort = () => finish(() => reject(signal.reason));
    signal.addEventListener("abort", abort, { once: true });
    /** @param {() => void} settle */
    function finish(settle) {
      // Later, since it may be called while subscribing.
      queueMicrotask(() => {
        signal.removeEventListener("abort", abort);
        end();
      });
      settle();
    }
  });
}

/** @param {EngineNow} now */
function waitingWords({ state, stage }) {
  const asked = "Your question is sent as soon as the engine is ready and this tab is in view.";
  if (state === "gone") return `The service cannot be reached. The page tries again every few seconds. ${asked}`;
  if (state === "stopping") return "The service is stopping.";
  const doing = state === "restarting" ? "The engine is restarting" : "The engine is starting";
  return `${doing}${stage ? ` (${stage})` : ""}. This takes about a minute. ${asked}`;
}

/** The buttons that fit a fresh certificate in place of a withdrawn one, and how far its job is. */

import { h, replace } from "../dom.js";
import { hasEnded, jobWords } from "../operate/jobs.js";
import { confirmed } from "./confirmed.js";

/** @typedef {import("../operate/overview.js").Job} Job */

/** The service reads the audited questions before it answers. */
const PATIENCE_MS = 30_000;
const QUESTION =
  "The audited questions since the alarm that have a reference answer run anew at the full budget, with lower priority than other questions. A certificate is fitted on them, with a smaller δ, and activated. Until then questions are answered as they are now.";

/**
 * @param {import("../api.js").Api} api
 * @param {() => void} onStarted
 * @returns {{ element: HTMLElement, update: (ids: string[]) => void, follow: (jobs: Job[]) => void }} `update` shows
 *   a button for each of these certificates; `follow` says how far their jobs are
 */
export function recalibrations(api, onStarted) {
  const element = h("div");
  /** @type {Map<string, ReturnType<typeof recalibration>>} */
  const known = new Map();
  return {
    element,
    update(ids) {
      for (const id of ids) if (!known.has(id)) known.set(id, recalibration(id, api, onStarted));
      const wanted = ids.map((id) => /** @type {ReturnType<typeof recalibration>} */ (known.get(id)).element);
      const same = wanted.length === element.children.length && wanted.every((one, at) => one === element.children[at]);
      if (!same) replace(element, wanted); // else a question that is open stays so
    },
    follow(jobs) {
      for (const one of known.values()) one.follow(jobs);
    },
  };
}

/**
 * @param {string} id
 * @param {import("../api.js").Api} api
 * @param {() => void} onStarted
 */
function recalibration(id, api, onStarted) {
  /** @type {string | null} */
  let started = null;
  const button = confirmed({
    verb: "Calibrate again",
    id,
    question: QUESTION,
    yes: "Calibrate now",
    not: "Not started",
    async run() {
      /** @type {Job} */
      const job = await api.post(`calibrations?replace=${encodeURIComponent(id)}`, PATIENCE_MS);
      started = job.id;
      onStarted();
      return jobWords(job);
    },
  });
  return {
    element: h("div", { class: "row" }, h("code", null, id), button.element),
    /** @param {Job[]} jobs */
    follow(jobs) {
      const job = jobs.find((one) => one.id === started);
      if (!job) return;
      button.say(jobWords(job));
      if (!hasEnded(job)) return;
      started = null;
      button.offer(); // after a failure it can be tried again
    },
  };
}

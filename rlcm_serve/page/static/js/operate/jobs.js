/** Calibration jobs: how far they are, and what they have to tell. */

import { h, replace, setText } from "../dom.js";
import { duration, measured, number, sentence } from "../format.js";
import { writeFragment } from "../fragment.js";
import { jobLog, timeOf } from "./job-log.js";

/** @typedef {import("./overview.js").Overview} Overview */
/** @typedef {import("./overview.js").Job} Job */

/** @type {Record<string, { mark: string, word: string, meaning: string }>} */
const STATES = {
  queued: { mark: "○", word: "waiting", meaning: "waiting for earlier jobs" },
  recording: { mark: "◐", word: "recording", meaning: "the problems run at the full budget, with lower priority than questions" },
  fitting: { mark: "◑", word: "fitting", meaning: "recording is complete; stopping rules are being tested" },
  done: { mark: "●", word: "done", meaning: "the certificate lists the levels that passed" },
  failed: { mark: "✕", word: "failed", meaning: "" },
  cancelled: { mark: "–", word: "cancelled", meaning: "the recorded rollouts are deleted" },
};

/**
 * @param {import("../api.js").Api} api
 * @returns {{ element: HTMLElement, update: (overview: Overview) => void }}
 */
export function jobsSection(api) {
  const list = h("ul", { class: "jobs" });
  const none = h(
    "p",
    { class: "muted" },
    "There are no calibration jobs. A job records problems with known answers and fits a certificate. To start one, post the problems to ",
    h("code", null, "POST /calibrations"),
    ".",
  );
  const broken = h("div", { class: "notice bad" });
  /** @type {Map<string, ReturnType<typeof jobItem>>} */
  const items = new Map();
  return {
    element: h("section", { class: "jobs-section" }, h("h3", null, "Calibration jobs"), broken, none, list),
    update({ jobs, jobs_error: error }) {
      broken.hidden = error === null;
      setText(broken, error === null ? "" : `The jobs could not be loaded: ${error}`);
      none.hidden = jobs.length > 0 || error !== null;
      for (const job of jobs) {
        if (!items.has(job.id)) items.set(job.id, jobItem(job.id, api));
        items.get(job.id)?.update(job);
      }
      const wanted = jobs.map(({ id }) => items.get(id)?.element);
      for (const id of [...items.keys()]) if (!jobs.some((job) => job.id === id)) items.delete(id);
      const same = wanted.length === list.children.length && wanted.every((one, at) => one === list.children[at]);
      if (!same) replace(list, wanted.filter((one) => one !== undefined));
    },
  };
}

/**
 * @param {string} id
 * @param {import("../api.js").Api} api
 */
function jobItem(id, api) {
  const state = h("span", { class: "tag" });
  const progress = h("progress", { max: "1", value: "0", "aria-label": `Progress of ${id}` });
  const amount = h("span", { class: "muted" });
  const words = h("p", { class: "muted" });
  const error = h("p", { class: "job-error" });
  const result = h("p");
  const log = jobLog(id, api);
  const element = h("li", { class: "card" }, h("div", { class: "row" }, h("h4", null, h("code", null, id)), state), h("div", { class: "row" }, progress, amount), words, error, result, log.element);
  let seen = "";
  return {
    element,
    /** @param {Job} job */
    update(job) {
      const { mark, word, meaning } = STATES[job.state] ?? { mark: "?", word: job.state, meaning: "" };
      setText(state, `${mark} ${word}`);
      state.className = job.state === "failed" ? "tag bad" : job.state === "done" ? "tag good" : "tag";
      const share = job.total ? job.done / job.total : 0;
      progress.value = share;
      progress.hidden = !["recording", "fitting"].includes(job.state);
      setText(amount, `${number(job.done)} of ${number(job.total)} rollouts recorded (${measured(share)})`);
      setText(words, [meaning, whenWords(job)].filter(Boolean).join("; "));
      error.hidden = job.error === null;
      setText(error, job.error ?? "");
      if (job.certificate !== seen) replace(result, job.certificate && ["Its certificate: ", h("a", { href: writeFragment("trust", { id: job.certificate }) }, job.certificate)]);
      seen = job.certificate ?? "";
      log.add(job.log);
      // Open at first while there is something to follow.
      if (!element.isConnected && job.state === "recording") log.element.open = true;
    },
  };
}

/**
 * How far a job is, in a line.
 *
 * @param {Job} job
 */
export function jobWords({ id, state, done, total, error }) {
  const { mark, word } = STATES[state] ?? { mark: "?", word: state };
  const far = state === "recording" ? `, ${number(done)} of ${number(total)} rollouts recorded` : "";
  return `${mark} Job ${id}: ${word}${far}${error ? `. ${sentence(error)}` : ""}`;
}

/** @param {Job} job */
export function hasEnded({ state }) {
  return ["done", "failed", "cancelled"].includes(state);
}

/** @param {Job} job */
function whenWords({ state, seconds_left: left, created, finished }) {
  if (state === "recording" && left !== null) return left < 1 ? "recording almost done" : `about ${duration(left)} left`;
  if (finished) return `ended ${timeOf(finished)}`;
  return `posted ${timeOf(created)}`;
}

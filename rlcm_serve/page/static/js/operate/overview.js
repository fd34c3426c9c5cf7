/** What `GET /overview` says, and what changes from one look to the next. */

import { number } from "../format.js";
import { generatedOf } from "../generated.js";

/**
 * @typedef {{ id: string, state: string, done: number, total: number, seconds_left: number | null,
 *   created: string, started: string | null, finished: string | null, certificate: string | null,
 *   error: string | null, log: { time: string, text: string }[] }} Job
 *
 * @typedef {{ alpha: number, certified: boolean, questions: number, risk: number | null,
 *   expected_tokens: number | null, full_budget_tokens: number | null, share_abstained: number | null }} Level
 *
 * @typedef {{ id: string, risk: string, promise: string, delta: number, n: number, vote: string,
 *   max_tokens: number, profiles: string[], kind: import("../trust/report-data.js").Kind | null, withdrawn: string | null,
 *   has_report: boolean, caveats: string[], levels: Level[] }} ActiveCertificate
 *
 * @typedef {object} Overview
 * @property {string} time ISO 8601
 * @property {number} uptime_s
 * @property {string} process that answered: all figures but those of jobs and certificates are its own
 * @property {string} version
 * @property {string} model
 * @property {string} figures whose they are: "service", or "key" for those of the key alone
 * @property {boolean} may_administer whether the key may change certificates and start jobs
 * @property {{ state: string, detail: string, ready: boolean, restarts: number,
 *   requests: number | null }} engine
 * @property {{ in_flight: number | null }} requests over HTTP, the one that asks included
 * @property {{ running: number, running_limit: number, waiting: number, waiting_limit: number,
 *   drain_per_second: number | null }} queue of questions
 * @property {{ answered: number, abstained: number, failed: number, guaranteed: number,
 *   unguaranteed: number, failures: Record<string, number> }} questions
 * @property {Record<string, number>} tokens by kind
 * @property {{ full_budget_tokens: number, saved_tokens: number, over_tokens: number,
 *   share: number | null }} saved
 * @property {Record<string, number>} exits
 * @property {{ edges: number[], now: number[], comparable: number[] | null,
 *   calibration: number[] | null }} confidence
 * @property {ActiveCertificate[]} certificates
 * @property {string[]} unsigned ids of certificates that are not served for lack of a signature
 * @property {Job[]} jobs
 * @property {string | null} jobs_error
 */

/**
 * @param {Overview["figures"]} figures
 * @param {boolean} isOneOfSeveral processes that answer in turn
 * @returns {string} whose they are; "" if the service's, as goes without saying
 */
export function whoseWords(figures, isOneOfSeveral) {
  const ofKey = "Figures of your key alone. Questions of others are not counted: the scope “metrics” shows those of all keys.";
  const ofProcess = "Several processes answer here, and each counts on its own: questions, tokens and exits are those of the one that answered last. Prometheus adds them up.";
  return [figures === "service" ? "" : ofKey, isOneOfSeveral ? ofProcess : ""].filter(Boolean).join(" ");
}

/** @param {Overview["figures"]} figures @returns {string} since when questions are counted, and whose */
export function sinceStart(figures) {
  return figures === "service" ? "since the start" : "with your key since the start";
}

/**
 * The limits are for all keys together, so the questions of one are not a share of them.
 *
 * @param {Overview["queue"]} queue
 * @param {Overview["figures"]} figures
 * @returns {{ running: [string, string, number?], waiting: [string, string, number?] }}
 */
export function queueTiles({ running, running_limit: most, waiting, waiting_limit: places, drain_per_second: drain }, figures) {
  if (figures !== "service") return { running: [number(running), "asked with your key"], waiting: [number(waiting), "asked with your key"] };
  const pace = drain ? `; ${number(drain, 1)} finish per second` : "";
  return {
    running: [number(running), `of at most ${number(most)}`, running / most],
    waiting: [number(waiting), `of ${number(places)} places${pace}`, waiting / places],
  };
}

const KEPT_S = 300;
const GAP_S = 10;
const RATE_S = 30;

/** @typedef {{ at: number, running: number | null, waiting: number | null, generated: number }} Moment */

/** @param {Overview} overview */
export function generated({ tokens }) {
  return generatedOf(tokens);
}

/**
 * The last five minutes of what was seen of the process that answered last. Where nobody looked there is a gap.
 *
 * @returns {{ add: (overview: Overview) => void, moments: () => Moment[], rate: () => number | null,
 *   isOneOfSeveral: () => boolean }}
 *   `rate`: tokens generated per second over the last half minute, null while unknown
 *   `isOneOfSeveral`: whether processes answer in turn; one that was only replaced does not count
 */
export function createHistory() {
  /** @type {Map<string, Moment[]>} */
  const seen = new Map();
  /** @type {Moment[]} */
  let moments = [];
  let process = "";
  let several = false;
  return {
    add(overview) {
      several ||= process !== overview.process && seen.has(overview.process);
      process = overview.process;
      moments = seen.get(process) ?? [];
      const at = overview.uptime_s;
      const last = moments[moments.length - 1];
      const total = generated(overview);
      if (last && at - last.at > GAP_S) moments.push({ at: at - 1, running: null, waiting: null, generated: total });
      if (last && at <= last.at) return;
      moments.push({ at, running: overview.queue.running, waiting: overview.queue.waiting, generated: total });
      moments = moments.filter((moment) => at - moment.at <= KEPT_S);
      seen.set(process, moments);
    },
    moments: () => moments,
    isOneOfSeveral: () => several,
    rate() {
      const last = moments[moments.length - 1];
      const first = moments.find((moment) => last && last.at - moment.at <= RATE_S && moment.running !== null);
      if (!last || !first || last.at - first.at < 1) return null;
      return (last.generated - first.generated) / (last.at - first.at);
    },
  };
}

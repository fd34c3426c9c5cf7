/** What `GET /monitoring` says, and how it is put into words. */

import { count, number, percent } from "../format.js";

/**
 * @typedef {{ audited: number, waiting: number, expired: number, right: number, wrong: number,
 *   others_right: number, others_wrong: number }} Labels
 * @typedef {{ labels: number, behind: number, risk: number | null, low: number, high: number,
 *   log_wealth: number, threshold: number, alarmed: boolean, alarmed_at: string | null }} Test
 * @typedef {{ statistic: string, calibration: number | null, now: number | null, rank: number,
 *   low: number, high: number, window: number, average_run_length: number | null,
 *   alarmed: boolean }} Drift
 * @typedef {{ time: string, risk: number | null, low: number | null, high: number | null,
 *   share_declined: number | null }} Point
 * @typedef {{ alpha: number, risk: number | null, risk_upper: number | null, questions: number,
 *   answered: number, share_declined: number | null, share_declined_expected: number | null,
 *   labels: Labels, test: Test | null, drift: Drift[], history: Point[] }} Level
 * @typedef {{ id: string, risk: string, active: boolean, guarantee: "given" | "withdrawn" | "restored",
 *   why: string | null, since: string | null, levels: Level[] }} Monitored
 * @typedef {{ number: number, time: string, certificate: string, alpha: number | null, what: string,
 *   text: string, action: string, hook: string }} Event
 * @typedef {{ time: string, behind_s: number | null,
 *   audit: { share: number, waiting: number, oldest: string | null },
 *   certificates: Monitored[], events: Event[] }} Monitoring
 */

/** @type {Record<string, { mark: string, word: string, tag: string }>} */
export const GUARANTEES = {
  given: { mark: "●", word: "guarantee given", tag: "tag good" },
  withdrawn: { mark: "✕", word: "guarantee withdrawn", tag: "tag bad" },
  restored: { mark: "○", word: "serves without a guarantee", tag: "tag" },
};

/** @type {Record<string, string>} */
export const ACTIONS = {
  withdraw: "the guarantee was withdrawn",
  warn: "it was said, and nothing else changed",
  none: "nothing was done",
};

/** @type {Record<string, string>} */
export const HOOKS = { waiting: "the webhook has not taken it yet", delivered: "the webhook was told", failed: "the webhook did not take it" };

/** @type {Record<string, string>} */
export const RUNBOOKS = { risk_alarm: "RlcmRiskAlarm", withdrawn: "RlcmGuaranteeWithdrawn", drift_alarm: "RlcmDriftAlarm" };

/** @param {Level} level */
export function riskWords({ test }) {
  if (test === null) return "no test of this risk";
  if (test.risk === null) return "no labels yet";
  return `${percent(test.risk)} (${percent(test.low)} to ${percent(test.high)})`;
}

/** @param {Level} level */
export function labelWords({ labels, test }) {
  const parts = [`${number(labels.right)} right, ${number(labels.wrong)} wrong`];
  if (labels.waiting) parts.push(`${number(labels.waiting)} waiting`);
  if (labels.expired) parts.push(`${number(labels.expired)} expired`);
  if (test?.behind) parts.push(`${count(test.behind, "answer")} not tested yet`);
  return parts.join("; ");
}

/** @param {Level} level */
export function declinedWords({ share_declined: now, share_declined_expected: expected }) {
  const live = now === null ? "–" : percent(now);
  return expected === null ? live : `${live} (expected ${percent(expected)})`;
}

/** @param {Level} level */
export function stateWords({ test, drift }) {
  const moved = drift.filter(({ alarmed }) => alarmed).map(({ statistic }) => statistic);
  const said = [];
  if (test?.alarmed) said.push("✕ risk alarm");
  if (moved.length) said.push(`▲ drift of ${moved.join(", ")}`);
  return said.join("; ") || "● no alarm";
}

/**
 * The history with its times as days before now, which are negative.
 *
 * @param {Point[]} history
 * @param {string} now
 */
export function daysOf(history, now) {
  const end = Date.parse(now);
  return history.map(({ time }) => (Date.parse(time) - end) / 86_400_000);
}

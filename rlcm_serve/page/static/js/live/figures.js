/** What `GET /monitoring` says, and how it is put into words. */

import { allBut, count, duration, list, measured, number, percent } from "../format.js";

/**
 * @typedef {{ audited: number, waiting: number, expired: number, right: number, wrong: number,
 *   others_right: number, others_wrong: number }} Labels
 * @typedef {{ labels: number, behind: number, risk: number | null, low: number, high: number,
 *   log_wealth: number, threshold: number, alarmed: boolean, alarmed_at: string | null }} Test
 * @typedef {{ statistic: string, calibration: number | null, now: number | null, rank: number,
 *   low: number, high: number, window: number, average_run_length: number | null,
 *   alarmed: boolean }} Drift
 * @typedef {{ agree: number, disagree: number, disagreement: number | null, low: number, high: number,
 *   above: boolean }} Shadow answers run on to the full budget, to see where it answers otherwise
 * @typedef {{ time: string, risk: number | null, low: number | null, high: number | null,
 *   share_declined: number | null }} Point
 * @typedef {{ alpha: number, risk: number | null, risk_upper: number | null, questions: number,
 *   answered: number, share_declined: number | null, share_declined_expected: number | null,
 *   labels: Labels, test: Test | null, drift: Drift[], shadow?: Shadow | null,
 *   history: Point[] }} Level
 * @typedef {{ id: string, risk: string, delta: number, active: boolean, guarantee: "given" | "withdrawn" | "restored" | "void",
 *   why: string | null, since: string | null, runbook?: string | null, levels: Level[] }} Monitored
 * @typedef {{ number: number, time: string, certificate: string, alpha: number | null, what: string,
 *   text: string, action: string, hook: string, runbook?: string | null }} Event
 * @typedef {{ time: string, behind_s: number | null,
 *   audit: { share: number, deadline_s: number, waiting: number, oldest: string | null },
 *   certificates_known: boolean, certificates: Monitored[], events: Event[] }} Monitoring
 */

/** @typedef {{ mark: string, kind: string, words: string }} Verdict a shape, a class and words */

/** @type {Record<string, { mark: string, word: string, tag: string }>} */
export const GUARANTEES = {
  given: { mark: "●", word: "guarantee given", tag: "tag good" },
  withdrawn: { mark: "✕", word: "guarantee withdrawn", tag: "tag bad" },
  restored: { mark: "○", word: "stops early without a guarantee", tag: "tag" },
  void: { mark: "✕", word: "no guarantee on this engine", tag: "tag bad" },
};

/** The statistics of drift, in words. @type {Record<string, string>} */
export const STATISTICS = { familiarity: "familiarity", confidence: "confidence at the end", tokens: "tokens", declined: "abstentions" };

/**
 * What the service writes, with α as the page writes it: "at alpha 0.1" -> "at α = 10%".
 *
 * @param {string} text
 */
export function withAlpha(text) {
  return text.replace(/\balpha (\d*\.?\d+)/g, (_, alpha) => `α = ${percent(Number(alpha))}`);
}

/**
 * What its labels say of a level's promise, in one word.
 *
 * @param {Level} level
 * @returns {"alarm" | "above" | "unclear" | "below" | "unlabelled" | "untestable"}
 */
export function statusOf({ alpha, test }) {
  if (test === null) return "untestable";
  if (test.alarmed) return "alarm";
  if (test.risk === null) return "unlabelled";
  if (test.high <= alpha) return "below";
  return test.low > alpha ? "above" : "unclear";
}

/**
 * The same in words.
 *
 * @param {Level} level
 * @returns {Verdict}
 */
export function verdictOf(level) {
  const target = percent(level.alpha);
  return {
    alarm: { mark: "✕", kind: "bad", words: `alarm: risk above ${target}` },
    above: { mark: "○", kind: "", words: `above ${target}, no alarm yet` },
    unclear: { mark: "○", kind: "", words: `the interval includes ${target}` },
    below: { mark: "✓", kind: "good", words: `below ${target}` },
    unlabelled: { mark: "–", kind: "", words: "no labels yet" },
    untestable: { mark: "–", kind: "", words: "labels cannot test it" },
  }[statusOf(level)];
}

/** Seconds after which tests that look at nothing tell nothing. */
export const LATE_S = 300;

/**
 * The answer to whether the promise is kept, over everything that is watched and was asked for.
 *
 * @param {Monitoring} body
 * @returns {Verdict}
 */
export function overall({ certificates, behind_s: behind }) {
  const active = certificates.filter((one) => one.active);
  const lost = active.filter(({ guarantee }) => guarantee !== "given");
  const asked = active.flatMap((one) => one.levels).filter(({ questions }) => questions > 0);
  /** @param {ReturnType<typeof statusOf>} status @returns {number} of levels */
  const found = (status) => asked.filter((level) => statusOf(level) === status).length;
  /** @param {number} some */
  const at = (some) => (some === asked.length ? "" : `at ${some} of ${count(asked.length, "level")} `);
  if (lost.length) {
    const alarmed = lost.filter(({ guarantee }) => guarantee !== "void").length;
    const some = (/** @type {number} */ many, /** @type {string} */ one, /** @type {string} */ more) => (many === 1 ? `a certificate ${one}` : `${count(many, "certificate")} ${more}`);
    const words = alarmed ? `${some(alarmed, "has", "have")} given no guarantee since an alarm` : `${some(lost.length, "gives", "give")} no guarantee on this engine`;
    return { mark: "✕", kind: "bad", words: `No: ${words}.` };
  }
  if (found("alarm")) return { mark: "✕", kind: "bad", words: "No: labels show a risk above its target." };
  if (behind !== null && behind > LATE_S) return unknown(`no process has looked at new answers for ${duration(behind)}.`);
  if (found("above")) return { mark: "○", kind: "bad", words: `Perhaps not: ${at(found("above"))}labels put the risk above its target, without an alarm yet.` };
  if (asked.length && found("untestable") === asked.length) return unknown("labels cannot test the promise of any level that was asked for.");
  if (!found("below") && !found("unclear")) return unknown("no answer under a guarantee has a label yet.");
  if (found("below") === asked.length) return { mark: "✓", kind: "good", words: "Yes, as far as labels tell." };
  const open = /** @type {const} */ ([["unclear", "too few labels to be sure yet"], ["unlabelled", "no label yet"], ["untestable", "labels cannot test it"]]);
  const said = open.filter(([status]) => found(status)).map(([status, words]) => `${at(found(status))}${words}`);
  return { mark: "○", kind: "", words: `No sign that it is broken; ${list(said)}.` };
}

/** @param {string} why @returns {Verdict} */
function unknown(why) {
  return { mark: "○", kind: "", words: `Not known: ${why}` };
}

/**
 * How sure the intervals of the live risks are.
 *
 * @param {Monitoring} body
 */
export function intervalsHold({ certificates }) {
  const sure = certificates.length ? ` with probability at least ${allBut(Math.max(...certificates.map(({ delta }) => delta)))}` : "";
  return `Beside each live risk stands its interval. The intervals of a certificate all hold${sure}, however often you look.`;
}

/** @param {Level} level */
export function labelWords({ labels, test }) {
  const parts = [`${number(labels.right)} right, ${number(labels.wrong)} wrong`];
  if (labels.waiting) parts.push(`${number(labels.waiting)} awaited`);
  if (labels.expired) parts.push(`${number(labels.expired)} too late, counted as right`);
  if (test?.behind) parts.push(`${count(test.behind, "later answer")} not tested yet`);
  return parts.join("; ");
}

/**
 * The label of an answer, or whether one can still count.
 *
 * @param {Pick<import("./recent.js").Answer, "outcome" | "audit" | "due" | "label">} answer
 * @param {number} [now]
 */
export function labelOf({ outcome, audit, due, label }, now = Date.now()) {
  if (label) return label === "right" ? "✓ right" : "✕ wrong";
  if (!audit || outcome !== "answered") return "–";
  return Date.parse(due) > now ? "○ awaited" : "– too late";
}

/** @param {Level} level */
export function abstainedWords({ share_declined: now, share_declined_expected: expected }) {
  const live = now === null ? "–" : measured(now);
  return expected === null ? live : `${live} (${measured(expected)} in calibration)`;
}

/** Units of time, the longest first, each with its milliseconds. */
const UNITS = /** @type {const} */ ([["days", 86_400_000], ["hours", 3_600_000], ["minutes", 60_000]]);

/**
 * Times before now, which are negative, in the longest unit of which they span two.
 *
 * @param {{ time: string }[]} history the oldest first
 * @param {string} now
 * @returns {{ unit: "days" | "hours" | "minutes", x: number[] }}
 */
export function beforeNow(history, now) {
  const ages = history.map(({ time }) => Date.parse(time) - Date.parse(now));
  const [unit, length] = UNITS.find(([, each]) => -(ages[0] ?? 0) >= 2 * each) ?? UNITS[2];
  return { unit, x: ages.map((age) => age / length) };
}

/** What the service says of a certificate, and what is read off it. */

/**
 * @typedef {object} Figures of a level on one set of problems
 * @property {number | null} risk realised; null where nothing was answered
 * @property {number | null} risk_low of its 95 % interval
 * @property {number | null} risk_high
 * @property {number} share_answered of the questions
 * @property {number | null} share_answered_low of its 95 % interval, as of all below; null in old report data
 * @property {number | null} share_answered_high
 * @property {number} share_right answered and right, of the questions
 * @property {number | null} share_right_low
 * @property {number | null} share_right_high
 * @property {number} tokens per question, all samples together
 * @property {number | null} tokens_low
 * @property {number | null} tokens_high
 * @property {number} full_budget_tokens the same without early exits
 * @property {number} tokens_share
 * @property {number | null} tokens_share_low
 * @property {number | null} tokens_share_high
 *
 * @typedef {Record<string, number | boolean>} Policy
 *
 * @typedef {object} Level
 * @property {number} alpha
 * @property {boolean} certified
 * @property {string | null} reason why it is not certified
 * @property {Policy | null} policy
 * @property {number | null} lambda_low null if there is no low exit
 * @property {number | null} lambda_high null if it never stops early
 * @property {number} p_value
 * @property {number | null} risk_upper
 * @property {Figures | null} calibration
 * @property {Figures | null} test
 *
 * @typedef {{ lambda_low: number | null, lambda_high: number | null, x: number, y: number }} Place
 * @typedef {Place & { in_plane: boolean, certified: boolean }} Tested
 *
 * @typedef {object} PValueMap
 * @property {number} alpha
 * @property {boolean} certified
 * @property {(number | null)[]} lambda_low of each column; null: no low exit
 * @property {(number | null)[]} lambda_high of each row, rising; null: never stops early
 * @property {(number | null)[][]} p_values by row and column; null: no such policy
 * @property {[number, number][]} certified_cells column and row
 * @property {Tested[]} tested
 * @property {Place | null} chosen
 * @property {Record<string, number | boolean>} held
 *
 * @typedef {{ low: number, high: number, count: number, confidence: number, accuracy: number }} Bin
 * @typedef {{ n_readings: number, accuracy: number, ece: number, brier: number, auroc: number | null,
 *   bins: Bin[] }} Readings
 * @typedef {{ n_problems: number, n_units: number, full_right: number }} Problems
 * @typedef {Record<string, string | number | boolean>} Fingerprint
 * @typedef {{ delta: number, bounds: { risk: string, at_most: number | null, bounds: (number | null)[] }[],
 *   next: { questions: number, most: (number | null)[], different_groups: boolean } | null }} Joint
 * @typedef {{ by: string, name: string | null, certified: string[], pooled: string[], delta: number }} Kind
 *
 * @typedef {object} ReportData
 * @property {string} id
 * @property {boolean} active
 * @property {boolean | null} fits null while the engine starts
 * @property {string | null} misfit
 * @property {string | null} voided why no answer of this engine has its guarantee, although it fits
 * @property {string | null} withdrawn why answers do not have its guarantee since an alarm
 * @property {string | null} refusal why the service must not serve it
 * @property {string} risk
 * @property {string} promise
 * @property {number} delta
 * @property {string} average what the risk averages over: "problems" or "groups"
 * @property {number} n samples of a question
 * @property {string} vote
 * @property {number | null} max_tokens
 * @property {Kind | null} kind null: it does not distinguish kinds of questions
 * @property {Joint | null} joint what holds at once with the levels
 * @property {string | null} created
 * @property {number} smallest_certifiable_alpha
 * @property {"traces" | "signature" | "none"} verified
 * @property {string} covers
 * @property {string[]} does_not_cover
 * @property {Fingerprint | null} fingerprint
 * @property {Fingerprint | null} engine_fingerprint null while the engine starts, or without report data
 * @property {Problems} calibration
 * @property {Problems | null} test
 * @property {Level[]} levels by rising alpha
 * @property {PValueMap[]} maps
 * @property {{ on_test: boolean, all: Readings, final: Readings } | null} reliability
 * @property {string | null} missing why there is no map and no reliability, and the remedy
 */

/**
 * @typedef {Omit<ReportData, "n" | "vote" | "max_tokens" | "engine_fingerprint" | "calibration" | "test" |
 *   "maps" | "reliability" | "missing" | "levels"> & {
 *   procedure: { n: number, vote: string, max_tokens: number | null }, n_problems: number,
 *   levels: any[], origin: string, profiles: string[] }} Certificate one of `GET /certificates`
 */

/**
 * What is known of a certificate that has no report: its own figures.
 *
 * @param {Certificate} certificate
 * @param {string} missing why there is none
 * @returns {ReportData}
 */
export function reportDataOf(certificate, missing) {
  const { procedure, levels, n_problems: n, ...same } = certificate;
  return {
    ...same,
    ...procedure,
    engine_fingerprint: null,
    calibration: { n_problems: n, n_units: n, full_right: NaN },
    test: null,
    levels: levels.map((level) => ({ ...level, ...thresholdsOf(level.policy), calibration: ownFigures(level), test: null })),
    maps: [],
    reliability: null,
    missing,
  };
}

/** @param {Policy | null} policy */
function thresholdsOf(policy) {
  const low = Number(policy?.["lambda_low"] ?? -1);
  const high = Number(policy?.["lambda_high"] ?? 2);
  return { lambda_low: low < 0 ? null : low, lambda_high: high > 1 ? null : high };
}

/**
 * @param {any} level
 * @returns {Figures | null}
 */
function ownFigures(level) {
  if (!level.certified) return null;
  const { risk, share_answered, share_right, expected_tokens: tokens, full_budget_tokens } = level;
  const known = { risk, share_answered, share_right, tokens, full_budget_tokens, tokens_share: tokens / full_budget_tokens };
  const ends = ["risk", "share_answered", "share_right", "tokens", "tokens_share"].flatMap((name) => [`${name}_low`, `${name}_high`]);
  return /** @type {Figures} */ ({ ...Object.fromEntries(ends.map((name) => [name, null])), ...known });
}

/**
 * The honest figures if there are any, else those of the problems that chose the policy.
 *
 * @param {Level} level
 * @returns {Figures | null}
 */
export function figuresOf(level) {
  return level.test ?? level.calibration;
}

/**
 * The figures there are, the honest ones first: those on problems that had no part in the calibration.
 *
 * @param {Level} level
 * @returns {{ figures: Figures, honest: boolean }[]}
 */
export function setsOf({ test, calibration }) {
  return [...(test ? [{ figures: test, honest: true }] : []), ...(calibration ? [{ figures: calibration, honest: false }] : [])];
}

/**
 * The level to look at first: that of the alpha, or else the nearest certified one below it; without an
 * alpha, or below all of them, one that is certified. Which level a request is served at, `servedLevel` says.
 *
 * @param {Level[]} levels by rising alpha
 * @param {number | null} alpha
 * @returns {Level | null} null if there are none at all
 */
export function levelFor(levels, alpha) {
  const asked = levels.find((level) => level.alpha === alpha);
  if (asked) return asked;
  const certified = levels.filter((level) => level.certified);
  const wanted = alpha ?? 0.1;
  const below = certified.filter((level) => level.alpha <= wanted + 1e-9).pop();
  return below ?? certified[0] ?? levels[0] ?? null;
}

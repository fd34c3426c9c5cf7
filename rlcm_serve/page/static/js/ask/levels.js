/** Which levels of risk are certified for what: read from the list of certificates. */

/**
 * @typedef {import("./question.js").Question} Question
 *
 * @typedef {object} Level
 * @property {number} alpha
 * @property {boolean} certified
 * @property {Record<string, number | boolean> | null} policy
 * @property {number | null} expected_tokens mean per question, all samples together
 * @property {number | null} full_budget_tokens the same without early exits
 * @property {number | null} share_answered
 *
 * @typedef {object} Certificate
 * @property {string} id
 * @property {boolean} active
 * @property {string | null} voided why no answer of this engine has its guarantee
 * @property {string | null} withdrawn why answers do not have its guarantee since an alarm
 * @property {string} risk
 * @property {"simultaneous" | "pointwise"} promise
 * @property {string} average what the risk averages over: "problems" or "groups"
 * @property {{ n: number, vote: string, max_tokens: number | null }} procedure
 * @property {string[]} profiles that it is for
 * @property {{ name: string | null, certified: string[], pooled: string[] } | null} kind that it is for, null
 *   or unnamed: of all kinds
 * @property {Level[]} levels
 * @property {number} smallest_certifiable_alpha
 */

/** The page asks without a prompt profile. */
const DEFAULT_PROFILE = "default";

/**
 * Whether a certificate covers questions of this page with this risk, of one kind or of all. One that is withdrawn or
 * voided does too: the page says then why there is no guarantee.
 *
 * @param {Certificate} certificate
 * @param {string} risk
 */
function serves(certificate, risk) {
  return certificate.active && certificate.risk === risk && certificate.profiles.includes(DEFAULT_PROFILE);
}

/**
 * Whether answers may have a certificate's guarantee.
 *
 * @param {Certificate | undefined} certificate
 */
export function isGiven(certificate) {
  return certificate !== undefined && !certificate.voided && !certificate.withdrawn;
}

/**
 * The kinds of questions that the active certificates for a risk tell apart.
 *
 * @param {Certificate[]} certificates
 * @param {string} risk
 * @returns {string[]} sorted; none if they tell no kinds apart
 */
export function kindsFor(certificates, risk) {
  const named = certificates.filter((one) => serves(one, risk)).flatMap(({ kind }) => (kind ? [...kind.certified, ...kind.pooled] : []));
  return [...new Set(named)].sort();
}

/**
 * The active certificate for a question's procedure: of its kind, or else of all kinds. With one sample the
 * vote has no effect.
 *
 * @param {Certificate[]} certificates
 * @param {Pick<Question, "risk" | "n" | "vote" | "kind">} question
 * @param {number | null} [budget] of thinking that questions of this page have; null: not known
 */
export function certificateFor(certificates, { risk, n, vote, kind }, budget = null) {
  const found = certificates.filter(
    (one) =>
      serves(one, risk) &&
      one.procedure.n === n &&
      (n === 1 || one.procedure.vote === vote) &&
      (budget === null || one.procedure.max_tokens === budget),
  );
  return found.find((one) => kind && one.kind?.name === kind) ?? found.find((one) => !one.kind?.name);
}

/**
 * The certificate that something is promised under, if it is among those that are known.
 *
 * @param {Certificate[]} certificates
 * @param {{ certificate: string } | null | undefined} guarantee
 */
export function certificateOf(certificates, guarantee) {
  return certificates.find((one) => one.id === guarantee?.certificate);
}

/**
 * Thinking of one sample that is not stopped early, tokens on average, where a certificate says.
 *
 * @param {Certificate[]} certificates
 * @param {{ samples: number, guarantee: { certificate: string } | null }} start of the stream
 * @returns {number | null}
 */
export function usualTokens(certificates, { samples, guarantee }) {
  const whole = certifiedLevels(certificateOf(certificates, guarantee))[0]?.full_budget_tokens;
  return typeof whole === "number" ? whole / samples : null;
}

/**
 * Levels that can be asked for, by rising alpha.
 *
 * @param {Certificate | undefined} certificate
 */
export function certifiedLevels(certificate) {
  return (certificate?.levels ?? []).filter((one) => one.certified).sort((a, b) => a.alpha - b.alpha);
}

/**
 * Numbers of samples with an active certificate whose guarantee is given.
 *
 * @param {Certificate[]} certificates
 * @param {Pick<Question, "risk" | "vote" | "kind">} question
 * @param {number | null} [budget] as in `certificateFor`
 * @returns {number[]} rising
 */
export function certifiedSamples(certificates, { risk, vote, kind }, budget = null) {
  const numbers = [...new Set(certificates.map((one) => one.procedure.n))];
  const found = (/** @type {number} */ n) => certificateFor(certificates, { risk, n, vote, kind }, budget);
  return numbers.filter((n) => isGiven(found(n)) && certifiedLevels(found(n)).length).sort((a, b) => a - b);
}

/**
 * The level at which a request for `alpha` is served, undefined if none keeps it: the largest
 * certified one below, and under a pointwise promise the largest listed one, if it is certified.
 *
 * @param {Certificate} certificate
 * @param {number} alpha
 */
export function servedLevel(certificate, alpha) {
  const listed = certificate.promise === "pointwise" ? certificate.levels : certifiedLevels(certificate);
  const below = listed.filter((one) => one.alpha <= alpha + 1e-12).sort((a, b) => a.alpha - b.alpha);
  const served = below[below.length - 1];
  return served?.certified ? served : undefined;
}

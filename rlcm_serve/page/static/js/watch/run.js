/** What is known of a question while it is answered: the stream's events, gathered by sample. */

/**
 * @typedef {import("../exits.js").ExitName} ExitName
 *
 * @typedef {object} Policy the exit rule that applies; a threshold that cannot fire is out of [0, 1]
 * @property {number} lambda_low λ1
 * @property {number} lambda_high λ2
 * @property {number} [patience] tokens
 * @property {number} [lambda_answer]
 * @property {number} [lambda_vote]
 * @property {number} [lambda_stop] absent if it never ends a sample
 * @property {number} [low_rise]
 * @property {number} [low_slope]
 * @property {number} [low_shift]
 * @property {number} [smoothing]
 * @property {boolean} [answer_on_low]
 *
 * @typedef {object} Guarantee
 * @property {string} statement
 * @property {string} risk
 * @property {number} alpha_requested
 * @property {number} alpha_certified
 * @property {number} delta
 * @property {"simultaneous" | "pointwise"} promise
 * @property {string} covers the same at length, in the certificate's own words
 * @property {string} certificate
 * @property {string | null} kind of question that it is about; null for all
 * @property {"traces" | "signature" | "none"} verified how the certificate's figures were verified
 *
 * @typedef {object} Start
 * @property {number} samples
 * @property {number} max_tokens
 * @property {Policy | null} policy
 * @property {Guarantee | null} guarantee
 * @property {string | null} no_guarantee_reason
 * @property {string | null} [no_guarantee_code] the same in one word
 *
 * @typedef {object} SampleEnd
 * @property {string | null} answer
 * @property {ExitName} exit
 * @property {number | null} confidence
 * @property {number} reasoning_tokens
 * @property {number} answer_tokens
 *
 * @typedef {object} Vote
 * @property {number} counted
 * @property {number} samples
 * @property {Record<string, number>} tally
 * @property {string | null} leader
 * @property {number} share
 * @property {boolean} decided
 *
 * @typedef {object} Solution
 * @property {string | null} answer
 * @property {boolean} abstained
 * @property {number | null} confidence
 * @property {ExitName | null} exit
 * @property {Guarantee | null} guarantee
 * @property {string | null} no_guarantee_reason
 * @property {string | null} [no_guarantee_code] the same in one word
 * @property {number | null} [familiarity] share of questions like the tested ones that look at least as unusual
 * @property {Record<string, number>} tally
 * @property {SampleEnd[]} samples
 * @property {Record<string, number>} usage
 * @property {{ full_budget_tokens: number, tokens: number, by_cancelling_tokens: number } | null} saved
 *
 * @typedef {object} Sample
 * @property {number} index
 * @property {string} text its thinking so far
 * @property {string} answerText what it wrote after that
 * @property {number} tokens of its thinking
 * @property {number[]} at tokens at each reading
 * @property {number[]} readings confidence there; NaN where it could not be read
 * @property {boolean} finalRead whether the last reading is that at its own end or the budget's
 * @property {{ exit: ExitName, tokens: number, confidence: number | null } | null} exit
 * @property {SampleEnd | null} end
 */

export class Run {
  constructor() {
    /** @type {Start | null} */
    this.start = null;
    /** @type {Sample[]} */
    this.samples = [];
    /** @type {Vote | null} */
    this.vote = null;
    /** @type {Solution | null} */
    this.solution = null;
    /** Tokens of all samples' thinking so far. */
    this.tokens = 0;
  }

  /**
   * Takes in one event.
   *
   * @param {string} name
   * @param {any} data
   * @returns {Sample | null} the sample it is about
   */
  apply(name, data) {
    if (name === "start") {
      this.start = data;
      this.samples = Array.from({ length: data.policy ? data.samples : 0 }, (_, index) => blank(index));
    } else if (name === "vote") this.vote = data;
    else if (name === "done") this.solution = data;
    else return this.#applyToSample(name, data);
    return null;
  }

  /**
   * @param {string} name
   * @param {any} data
   */
  #applyToSample(name, data) {
    const sample = this.samples[data.sample];
    if (!sample) return null;
    if (name === "token") {
      if (data.is_answer) sample.answerText += data.text;
      else {
        sample.text += data.text;
        sample.tokens += data.tokens;
        this.tokens += data.tokens;
      }
    } else if (name === "checkpoint") {
      sample.at.push(data.tokens);
      sample.readings.push(data.confidence ?? NaN);
      sample.finalRead = data.is_final;
    } else if (name === "exit") {
      sample.exit = { exit: data.exit, tokens: data.tokens, confidence: data.confidence };
    } else if (name === "sample") {
      sample.end = data;
      sample.exit ??= { exit: data.exit, tokens: data.reasoning_tokens, confidence: data.confidence };
    }
    return sample;
  }
}

/**
 * @param {number} index
 * @returns {Sample}
 */
function blank(index) {
  return { index, text: "", answerText: "", tokens: 0, at: [], readings: [], finalRead: false, exit: null, end: null };
}

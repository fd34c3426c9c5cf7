/** The list of certificates. It is read again whenever it may have changed: an alarm withdraws a promise at any time. */

import { answers } from "../engine.js";
import { certificateFor, certificateOf, isGiven } from "./levels.js";

/**
 * @typedef {import("./levels.js").Certificate} Certificate
 * @typedef {{ certificates: Certificate[], max_tokens: number | null }} Listed `max_tokens`: the thinking
 *   budget of the page's questions
 * @typedef {{ guarantee: { certificate: string } | null }} Promised
 *
 * @typedef {object} Known
 * @property {() => Certificate[]} all as last read
 * @property {(question: import("./question.js").Question) => boolean} covers whether a question has the guarantee of one
 * @property {() => Promise<void>} learn reads them; without an answer, what is known stays
 * @property {() => Promise<void>} refresh the same, if the engine can say which are active
 * @property {(run: { start: Promised, solution: Promised }) => Promise<void>} after an answer, which may
 *   show that the list is old
 *
 * @param {Pick<import("../api.js").Api, "get">} api
 * @param {Pick<import("../engine.js").EngineWatch, "now">} engine
 * @param {(listed: Listed) => void} onRead
 * @returns {Known}
 */
export function knownCertificates(api, engine, onRead) {
  /** @type {Certificate[]} */
  let certificates = [];
  /** @type {number | null} */
  let budget = null;
  /** @type {Promise<void> | null} */
  let learning = null;

  function learn() {
    learning ??= read().finally(() => {
      learning = null;
    });
    return learning;
  }

  async function read() {
    try {
      const listed = await api.get("certificates");
      certificates = listed.certificates;
      budget = listed.max_tokens;
      onRead(listed);
    } catch {
      // Without the list nothing is named on the sliders; asking says what is wrong.
    }
  }

  return {
    all: () => certificates,
    covers: (question) => isGiven(certificateFor(certificates, question, budget)),
    learn,
    async refresh() {
      if (answers(engine.now())) await learn();
    },
    async after({ start, solution }) {
      // It may have become active after the list was read, or there was no key yet.
      const isUnknown = start.guarantee && !certificateOf(certificates, start.guarantee);
      if (isUnknown) await learn();
      else if (!solution.guarantee) learn(); // nobody waits: the answer does not need it
    },
  };
}

/** What went wrong with a question, and what can be done about it. */

import { h } from "../dom.js";
import { duration, frequency, measured, percent, sentence } from "../format.js";
import { RISKS } from "../risks.js";

/**
 * @typedef {import("../api.js").Problem} Problem
 * @typedef {import("./question.js").Question} Question
 *
 * @typedef {object} Remedies
 * @property {(part: Partial<Question>) => void} again asks it again, with these settings changed
 * @property {() => void} key asks for an API key, and then the question again
 * @property {boolean} isCovered whether a certificate covers these settings; otherwise the levels that the service
 *   lists are those of the nearest one
 * @property {import("../engine.js").EngineWatch} engine
 */

/**
 * @param {Problem} problem
 * @param {Question} question
 * @param {Remedies} remedies
 * @param {string} [sofar] what had been generated until then
 * @returns {HTMLElement}
 */
export function trouble(problem, question, remedies, sofar) {
  const again = button("Ask again", () => remedies.again({}), true);
  if (problem.kind === "infeasible-alpha") return infeasible(problem, question, remedies);
  if (problem.refusesKey) {
    const title = problem.status === 401 ? "An API key is needed" : "This key may not ask questions";
    return notice(title, [problem.detail], button(problem.retryWords("Ask again"), remedies.key, true));
  }
  if (problem.kind === "connection-lost") {
    const what = sofar ? `${sofar}. The text so far stays below. There is no answer, so there is no guarantee.` : problem.detail;
    const made = notice(sofar ? "The connection was lost" : "The service is out of reach", [what], again);
    made.append(reach(remedies.engine));
    return made;
  }
  if (["not-ready", "engine-dead"].includes(problem.kind) && remedies.engine.now().state === "failed") {
    const what = "The engine did not start, and the service has stopped trying. The operator has to restart the service; its log says why.";
    return notice("The engine is down", [problem.detail, what], again);
  }
  if (problem.kind === "engine-dead") {
    return notice("The engine stopped while it worked on this question", [problem.detail, "The service is restarting it. The top of the page shows the state."], again);
  }
  if (problem.status === 429) {
    const wait = problem.retryAfter ? `Try again in about ${duration(problem.retryAfter)}.` : "";
    return notice("The service is busy", [problem.detail, wait], again);
  }
  if (problem.status === 504) {
    const why = problem.fields.no_guarantee_reason;
    return notice("It took too long", [problem.detail, why ? `No guarantee: ${why}.` : ""], again);
  }
  if (problem.status === 422 || problem.status === 413) return notice("The service cannot take this question", [problem.detail]);
  return notice(problem.title || "Something went wrong", [problem.detail || problem.message], again);
}

/**
 * @param {Problem} problem
 * @param {Question} question
 * @param {Remedies} remedies
 */
function infeasible({ fields }, { alpha, risk }, { again, isCovered }) {
  /** @type {number[]} */
  const levels = fields.certified_alphas ?? [];
  const smallest = fields.smallest_certifiable_alpha;
  const why = `You accept that at most ${RISKS[risk].often(frequency(alpha))}. The calibration problems do not show that any stopping rule keeps this, so the service refuses.`;
  const near = typeof smallest === "number" && `The smallest risk that a certificate on as many new problems could reach is about ${measured(smallest)}.`;
  const listed = isCovered ? "These risks are certified. Ask at one of them:" : "These risks are certified for the nearest settings; for yours, the answer has no guarantee:";
  return notice("That risk could not be certified with this data", [
    why,
    near || "",
    levels.length ? listed : "No risk is certified for these settings.",
  ], ...levels.map((level) => button(percent(level), () => again({ alpha: level }), level === levels[0])),
    button("Use the full budget, without a guarantee", () => again({ on_infeasible: "full_budget" })));
}

const REACH = {
  unknown: "",
  gone: "◌ Reconnecting …",
  starting: "◐ The service is back, and its engine is starting.",
  restarting: "◐ The service is back, and its engine is restarting.",
  failed: "✕ The service is back, but its engine is down.",
  stopping: "◐ The service is stopping.",
  degraded: "◐ The service answers, and its database is down.",
  ready: "● The service answers.",
};

/**
 * Whether the service can be reached again, kept up as long as it is on the page.
 *
 * @param {import("../engine.js").EngineWatch} engine
 */
function reach(engine) {
  const text = h("p", { class: "hint reach", role: "status" });
  let shown = false;
  const end = engine.subscribe(({ state }) => {
    if (shown && !text.isConnected) return end();
    text.textContent = REACH[state];
    shown ||= text.isConnected;
  });
  return text;
}

/**
 * @param {string} title
 * @param {string[]} paragraphs
 * @param {...HTMLElement} actions
 */
function notice(title, paragraphs, ...actions) {
  return h(
    "div",
    { class: "notice bad", role: "alert" },
    h("h2", { tabindex: -1 }, title),
    paragraphs.filter(Boolean).map((text) => h("p", null, sentence(text))),
    actions.length ? h("div", { class: "row" }, actions) : null,
  );
}

/**
 * @param {string} text
 * @param {() => void} onclick
 * @param {boolean} [first]
 */
function button(text, onclick, first = false) {
  return h("button", { type: "button", class: first ? "primary" : null, onclick }, text);
}

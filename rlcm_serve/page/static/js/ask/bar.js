/** The line above the lanes: what was asked, and what can be done with it. */

import { h, replace, setText } from "../dom.js";
import { count, percent } from "../format.js";
import { RISKS } from "../risks.js";

/**
 * @typedef {import("./question.js").Question} Question
 *
 * @typedef {object} Bar
 * @property {HTMLElement} element
 * @property {(question: Question, running: boolean) => void} show
 * @property {(text: string) => void} say a word on how it stands
 * @property {() => void} focus on what can be done
 */

/**
 * @param {{ stop: () => void, change: () => void, share: () => Promise<void> }} actions
 * @returns {Bar}
 */
export function bar({ stop, change, share }) {
  const problem = h("p", { class: "bar-problem" });
  const terms = h("p", { class: "bar-terms hint" });
  const state = h("p", { class: "bar-state", role: "status" });
  const stopping = h("button", { type: "button", class: "primary", onclick: stop }, "Stop ", h("kbd", null, "Esc"));
  const changing = h("button", { type: "button", class: "primary", onclick: change }, "Ask another");
  const sharing = h("button", { type: "button", onclick: copy }, "Copy link");

  async function copy() {
    // Browsers have a clipboard only for pages from this machine, or over TLS.
    const copied = await share().then(() => true, () => false);
    setText(sharing, copied ? "Link copied" : "Copy the address bar instead");
    setTimeout(() => setText(sharing, "Copy link"), 2500);
  }

  new ResizeObserver(() => {
    // What scrolls must be reached by keyboard.
    const scrolls = problem.scrollHeight > problem.clientHeight;
    const reached = { tabindex: "0", role: "region", "aria-label": "The question" };
    for (const [name, value] of Object.entries(reached)) scrolls ? problem.setAttribute(name, value) : problem.removeAttribute(name);
  }).observe(problem);

  const element = h(
    "div",
    { class: "bar", hidden: true },
    h("div", { class: "bar-asked" }, h("h1", { class: "unseen" }, "Your question"), problem, terms),
    h("div", { class: "row" }, state, sharing, changing, stopping),
  );
  return {
    element,
    show(question, running) {
      setText(problem, question.problem);
      replace(
        terms,
        `You accept that at most ${percent(question.alpha)} ${RISKS[question.risk].promise} · ${count(question.n, "sample")}`,
        question.n > 1 && question.vote === "majority" ? " · majority vote" : "",
        question.kind ? ` · kind “${question.kind}”` : "",
      );
      stopping.hidden = !running;
      changing.hidden = running;
      sharing.hidden = running;
      element.hidden = false;
    },
    say: (text) => setText(state, text),
    focus: () => (stopping.hidden ? changing : stopping).focus({ preventScroll: true }),
  };
}

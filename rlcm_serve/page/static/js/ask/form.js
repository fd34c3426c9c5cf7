/** The form: a question, the risk that is accepted, how many samples. */

import { h, replace, setText, uniqueId } from "../dom.js";
import { count, frequency, list, measured, percent } from "../format.js";
import { writeFragment } from "../fragment.js";
import { RISKS } from "../risks.js";
import { certificateFor, certifiedLevels, certifiedSamples, isGiven, kindsFor, servedLevel } from "./levels.js";
import { DEFAULTS, MOST_SAMPLES } from "./question.js";
import { slider, stopsAt } from "./slider.js";

/**
 * @typedef {import("./question.js").Question} Question
 * @typedef {import("./levels.js").Certificate} Certificate
 *
 * @typedef {object} Form
 * @property {HTMLFormElement} element
 * @property {() => Question} read
 * @property {(question: Partial<Question>) => void} write
 * @property {(certificates: Certificate[], budget: number | null) => void} know what is certified, and the
 *   thinking budget of questions; names it on the sliders
 * @property {() => void} focus
 */

const ALPHAS = [0.001, 0.01, 0.02, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5];
const SAMPLES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, MOST_SAMPLES];

/**
 * @param {(question: Question) => void} onAsk
 * @param {() => void} onEdit something was changed by hand
 * @param {HTMLElement} picker placed below the question
 * @returns {Form}
 */
export function askForm(onAsk, onEdit, picker) {
  /** @type {Question} */
  let now = { ...DEFAULTS };
  /** @type {Certificate[] | null} */
  let certificates = null;
  /** @type {number | null} */
  let budget = null;

  const id = uniqueId("question");
  const problem = h("textarea", {
    id,
    rows: 3,
    required: true,
    spellcheck: "false",
    placeholder: "Start at 19. A take 9. B add 3. What is the total?",
    "aria-describedby": `${id}-keys`,
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      element.requestSubmit();
    },
    oninput: () => {
      problem.setCustomValidity("");
      onEdit();
    },
  });
  const alpha = slider("How often may it be wrong?\u00a0α", (value) => percent(value), (value) => change({ alpha: value }));
  const n = slider("How many samples?\u00a0n", (value) => count(value, "sample"), (value) => change({ n: value }));
  const risk = choices("What the risk counts", "risk", Object.entries(RISKS).map(([value, one]) => [value, one.title, one.what]));
  const vote = choices("How the samples vote", "vote", [
    ["confidence", "Weighted by confidence", ""],
    ["majority", "One vote per sample", ""],
  ]);
  const kind = h("select", { name: "kind" });
  const kindChoice = h("label", { class: "ask-kind", hidden: true }, "Kind, for the guarantee ", kind);
  const infeasible = choices("If no stopping rule is certified for that risk", "on_infeasible", [
    ["error", "Refuse, and list the certified risks", ""],
    ["full_budget", "Use the full budget, without a guarantee", ""],
  ]);
  const certified = h(
    "p",
    { class: "hint ask-certified" },
    "◆ Certified: a stopping rule was tested on questions with known answers, and it kept that risk. ",
    h("a", { href: writeFragment("trust") }, "See the evidence"),
  );

  const element = h(
    "form",
    { class: "ask-form", novalidate: true, onsubmit: submit, onchange: settle },
    h(
      "div",
      { class: "ask-question" },
      h("label", { for: id }, "Your question"),
      problem,
      picker,
    ),
    h("div", { class: "ask-sliders" }, alpha.element, n.element, certified),
    kindChoice,
    h("details", { class: "ask-more" }, h("summary", null, "More"), h("div", { class: "ask-choices" }, risk, vote, infeasible)),
    h(
      "div",
      { class: "row ask-go" },
      h("button", { type: "submit", class: "primary" }, "Ask"),
      h("p", { class: "hint", id: `${id}-keys` }, h("kbd", null, "Enter"), " to ask, ", h("kbd", null, "Shift"), " ", h("kbd", null, "Enter"), " for a new line, ", h("kbd", null, "Esc"), " to stop"),
    ),
  );

  /** @param {Event} event */
  function submit(event) {
    event.preventDefault();
    if (!problem.value.trim()) {
      problem.setCustomValidity("Write a question first.");
      problem.reportValidity();
      return;
    }
    onAsk(read());
  }

  function settle() {
    const chosen = new FormData(element);
    now.risk = /** @type {Question["risk"]} */ (chosen.get("risk") ?? now.risk);
    now.kind = String(chosen.get("kind") ?? now.kind);
    now.vote = /** @type {Question["vote"]} */ (chosen.get("vote") ?? now.vote);
    now.on_infeasible = /** @type {Question["on_infeasible"]} */ (chosen.get("on_infeasible") ?? now.on_infeasible);
    draw();
    onEdit();
  }

  /** @param {Partial<Question>} part */
  function change(part) {
    now = { ...now, ...part };
    draw();
    onEdit();
  }

  /** Kinds that no certificate tells apart cannot be asked for. */
  function drawKinds() {
    if (!certificates) return;
    const kinds = kindsFor(certificates, now.risk);
    if (!kinds.includes(now.kind)) now.kind = "";
    replace(kind, ["", ...kinds].map((one) => h("option", { value: one, selected: one === now.kind }, one || "none")));
    kindChoice.hidden = !kinds.length;
  }

  function draw() {
    drawKinds();
    const certificate = certificateFor(certificates ?? [], now, budget);
    const levels = certifiedLevels(certificate).map((one) => one.alpha);
    const samples = certifiedSamples(certificates ?? [], now, budget);
    const named = isGiven(certificate) ? levels : [];
    certified.hidden = certificate !== undefined && !isGiven(certificate);
    // As in the demo: every stop is a level that can be kept, and stands where it stood there.
    alpha.set(stopsAt([...(levels.length ? levels : ALPHAS), now.alpha], named, (value) => percent(value)), now.alpha, certificates ? alphaNote(now, certificate) : meaningOf(now));
    n.set(stopsAt([...SAMPLES, now.n], samples, String), now.n, samplesNote(now, certificates && !certified.hidden ? samples : null));
  }

  function read() {
    return { ...now, problem: problem.value.trim() };
  }

  draw();
  return {
    element,
    read,
    write(question) {
      now = { ...now, ...question };
      if (question.problem !== undefined) problem.value = question.problem;
      for (const name of /** @type {const} */ (["risk", "vote", "on_infeasible"])) {
        const radio = element.querySelector(`input[name="${name}"][value="${now[name]}"]`);
        if (radio instanceof HTMLInputElement) radio.checked = true;
      }
      draw();
    },
    know(found, thinking) {
      certificates = found;
      budget = thinking;
      draw();
    },
    focus: () => problem.focus(),
  };
}

/**
 * @param {Question} question
 * @param {Certificate} [certificate] that covers it
 */
function meaningOf({ alpha, risk, kind }, certificate) {
  const over = certificate?.average === "groups" ? "groups of questions, each of which counts the same" : "questions like the tested ones";
  const alone = kind && certificate && !certificate.kind?.name ? ` It is about all kinds together: for questions of the kind “${kind}” alone nothing is promised.` : "";
  const before = certificate?.promise === "pointwise" ? ", if you chose α before you saw any result" : "";
  return `The promise${before}: at most ${RISKS[risk].often(frequency(alpha))}, on average over ${over}.${alone}`;
}

/**
 * @param {Question} question
 * @param {Certificate | undefined} certificate
 */
export function alphaNote(question, certificate) {
  const { alpha, on_infeasible } = question;
  const meaning = meaningOf(question, certificate);
  if (!certificate) return "These settings are not certified, so the answer has no guarantee.";
  if (certificate.voided) return "This engine does not give the promise for these settings, so the answer has no guarantee.";
  if (certificate.withdrawn) return "The promise for these settings was withdrawn after an alarm, so the answer has no guarantee.";
  const levels = certifiedLevels(certificate).map((one) => percent(one.alpha));
  const served = servedLevel(certificate, alpha);
  if (!served) {
    const then = on_infeasible === "full_budget" ? "The model will use its full budget, without a guarantee." : `Certified levels: ${list(levels)}.`;
    return `No stopping rule is certified for that risk. ${then}`;
  }
  const kept = Math.abs(served.alpha - alpha) < 1e-9 ? "" : `The rule certified for ${percent(served.alpha)} applies.`;
  return [meaning, kept, abstains(served)].filter(Boolean).join(" ");
}

/** What a level costs in answers, as calibration has seen it. @param {import("./levels.js").Level} level */
function abstains({ share_answered: answered }) {
  if (answered === null || answered > 0.99) return "";
  return `It abstains on about ${measured(1 - answered)} of such questions instead of guessing.`;
}

/**
 * @param {Question} question
 * @param {number[] | null} samples certified; null if that is not known, or of no use
 */
function samplesNote({ n }, samples) {
  const meaning = n === 1 ? "The model thinks once and gives one answer." : `The model thinks ${n} times independently, and the samples vote on the answer.`;
  if (!samples) return meaning;
  if (samples.includes(n)) return `${meaning} ◆ Certified.`;
  if (!samples.length) return `${meaning} These settings are not certified.`;
  return `${meaning} Certified for ${list(samples.map(String), "or")} only.`;
}

/**
 * @param {string} title
 * @param {string} name
 * @param {string[][]} options value, title, and what it means
 */
function choices(title, name, options) {
  const legend = h("legend");
  setText(legend, title);
  return h(
    "fieldset",
    null,
    legend,
    options.map(([value, text, what], at) =>
      h(
        "label",
        { class: "choice" },
        h("input", { type: "radio", name, value, checked: at === 0 }),
        h("span", null, text, what && h("small", null, what)),
      ),
    ),
  );
}

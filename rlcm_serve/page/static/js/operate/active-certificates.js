/** The active certificates: what each level promises and expects, and how often it was asked for. */

import { h, replace, setText } from "../dom.js";
import { measured, number, percent, sentence, tokens } from "../format.js";
import { writeFragment } from "../fragment.js";
import { withAlpha } from "../live/figures.js";
import { byRisk } from "../risks.js";
import { kindWords, riskWording, samplesWords } from "../trust/wording.js";

/** @typedef {import("./overview.js").Overview} Overview */
/** @typedef {import("./overview.js").ActiveCertificate} ActiveCertificate */

/** @returns {{ element: HTMLElement, update: (overview: Overview) => void }} */
export function activeSection() {
  const root = h("div", { class: "active-certificates" });
  const none = h("p", { class: "muted" }, "No certificate is active. Questions use the full budget, and answers have no guarantee.");
  const waiting = h("p", { class: "muted", hidden: true });
  let shape = "";
  /** @type {Map<string, HTMLElement>} */
  let counts = new Map();
  return {
    element: h(
      "section",
      { class: "active-certificates-section" },
      h("h3", null, "Active certificates"),
      h("p", { class: "term" }, "For each certified level: tokens per question, beside those at the full budget, and the share of questions without an answer. Both are averages over the calibration problems."),
      none,
      waiting,
      root,
    ),
    update({ certificates, unsigned }) {
      none.hidden = certificates.length > 0;
      waiting.hidden = unsigned.length === 0;
      setText(waiting, `This service uses signed certificates only. No trusted key has signed these, so they are not used: ${unsigned.join(", ")}.`);
      root.hidden = certificates.length === 0;
      const next = JSON.stringify(certificates.map(({ id, caveats, withdrawn, levels }) => [id, caveats, withdrawn, levels.map(({ alpha }) => alpha)]));
      if (next !== shape) {
        counts = new Map();
        const titles = titlesOf(certificates);
        replace(root, inOrder(certificates).map((one) => tableOf(one, titles.get(one.id) ?? one.id, counts)));
      }
      shape = next;
      for (const { id, levels } of certificates) {
        for (const { alpha, questions } of levels) {
          const cell = counts.get(`${id} ${alpha}`);
          if (cell) setText(cell, number(questions));
        }
      }
    },
  };
}

/**
 * What each is for, by id; with its thinking budget where another is for the same but for that.
 *
 * @param {ActiveCertificate[]} certificates
 * @returns {Map<string, string>}
 */
export function titlesOf(certificates) {
  const plain = certificates.map(titleOf);
  const isTwice = (/** @type {string} */ title) => plain.indexOf(title) !== plain.lastIndexOf(title);
  return new Map(certificates.map((one) => [one.id, isTwice(titleOf(one)) ? `${titleOf(one)}, budget of ${tokens(one.max_tokens)}` : titleOf(one)]));
}

/** @param {ActiveCertificate} certificate */
function titleOf(certificate) {
  const named = certificate.profiles.filter((name) => name !== "default");
  const under = named.length ? `, profile ${named.join(", ")}` : "";
  return `${riskWording(certificate.risk).title}, ${samplesWords(certificate)}${kindWords(certificate)}${under}`;
}

/** @param {ActiveCertificate[]} certificates */
function inOrder(certificates) {
  return [...certificates].sort((a, b) => byRisk(a.risk, b.risk) || a.n - b.n);
}

/**
 * @param {ActiveCertificate} certificate
 * @param {string} title
 * @param {Map<string, HTMLElement>} counts filled: the cell with the questions of each level
 */
function tableOf({ id, caveats, withdrawn, levels }, title, counts) {
  const head = ["Target α", "Questions", "Tokens", "Abstentions"];
  return h(
    "table",
    null,
    h("caption", null, h("a", { href: writeFragment("trust", { id }) }, title), " ", h("code", null, id), withdrawn === null ? null : h("p", null, `No guarantee since an alarm: ${withAlpha(withdrawn)}.`), caveats.map((text) => h("p", null, sentence(text)))),
    h("thead", null, h("tr", null, head.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null, levels.filter(({ certified }) => certified).map((level) => levelRow(id, level, counts))),
  );
}

/**
 * @param {string} id
 * @param {import("./overview.js").Level} level
 * @param {Map<string, HTMLElement>} counts
 */
function levelRow(id, { alpha, expected_tokens: expected, full_budget_tokens: full, share_abstained: abstained }, counts) {
  const questions = h("td");
  counts.set(`${id} ${alpha}`, questions);
  const cost = expected === null || full === null ? "–" : `${number(expected)} of ${number(full)}`;
  return h("tr", null, h("th", { scope: "row" }, percent(alpha)), questions, h("td", null, cost), h("td", null, abstained === null ? "–" : measured(abstained)));
}

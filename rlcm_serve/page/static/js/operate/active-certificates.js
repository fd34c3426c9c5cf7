/** The active certificates: what each level promises and expects, and how often it was asked for. */

import { h, replace, setText } from "../dom.js";
import { measured, number, percent, sentence } from "../format.js";
import { writeFragment } from "../fragment.js";
import { byRisk } from "../risks.js";
import { riskWording, samplesWords } from "../trust/wording.js";

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
      const next = JSON.stringify(certificates.map(({ id, caveats, levels }) => [id, caveats, levels.map(({ alpha }) => alpha)]));
      if (next !== shape) {
        counts = new Map();
        replace(root, inOrder(certificates).map((one) => tableOf(one, counts)));
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

/** What it is for. @param {ActiveCertificate} certificate */
export function titleOf(certificate) {
  const named = certificate.profiles.filter((name) => name !== "default");
  const under = named.length ? `, profile ${named.join(", ")}` : "";
  return `${riskWording(certificate.risk).title}, ${samplesWords(certificate)}${under}`;
}

/** @param {ActiveCertificate[]} certificates */
function inOrder(certificates) {
  return [...certificates].sort((a, b) => byRisk(a.risk, b.risk) || a.n - b.n);
}

/**
 * @param {ActiveCertificate} certificate
 * @param {Map<string, HTMLElement>} counts filled: the cell with the questions of each level
 */
function tableOf(certificate, counts) {
  const { id, caveats, levels } = certificate;
  const head = ["Target α", "Questions", "Tokens", "Abstentions"];
  return h(
    "table",
    null,
    h("caption", null, h("a", { href: writeFragment("trust", { id }) }, titleOf(certificate)), " ", h("code", null, id), caveats.map((text) => h("p", null, sentence(text)))),
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

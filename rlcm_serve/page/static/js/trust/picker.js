/** The certificates there are: one is looked at by its link, others are put beside it. */

import { h } from "../dom.js";
import { number, percent } from "../format.js";
import { writeFragment } from "../fragment.js";
import { byRisk } from "../risks.js";
import { kindWords, riskWording, samplesWords, stateOf } from "./wording.js";

/** @typedef {import("./report-data.js").Certificate} Certificate */

export const MOST_COMPARED = 4;

/**
 * @param {Certificate[]} certificates
 * @param {string[]} shown ids, in their order
 * @param {(ids: string[]) => void} onChange other ones are to be shown
 * @returns {HTMLElement}
 */
export function picker(certificates, shown, onChange) {
  const risks = [...new Set(certificates.map(({ risk }) => risk))].sort(byRisk);
  const budgets = new Set(certificates.map(({ procedure }) => procedure.max_tokens));
  return h(
    "nav",
    { class: "certificate-picker", "aria-label": "Certificates" },
    h("h2", null, "All certificates"),
    h("p", { class: "term" }, `Choose one to look at, or tick “compare” to put up to ${MOST_COMPARED} side by side.`),
    risks.map((risk) =>
      h(
        "section",
        null,
        h("h3", null, riskWording(risk).title, " ", h("code", null, risk)),
        h(
          "ul",
          null,
          certificates
            .filter((one) => one.risk === risk)
            .sort((a, b) => a.procedure.n - b.procedure.n)
            .map((one) => chip(one, shown, onChange, budgets.size > 1)),
        ),
      ),
    ),
  );
}

/**
 * @param {Certificate} certificate
 * @param {string[]} shown
 * @param {(ids: string[]) => void} onChange
 * @param {boolean} sayBudget
 */
function chip(certificate, shown, onChange, sayBudget) {
  const { id, levels, procedure, profiles, kind } = certificate;
  const here = shown.includes(id);
  const alphas = levels.filter((level) => level.certified).map((level) => percent(level.alpha));
  const full = !here && shown.length >= MOST_COMPARED;
  const alone = here && shown.length === 1;
  const toggle = h("input", {
    type: "checkbox",
    disabled: full || alone,
    "data-id": id,
    onchange: () => onChange(here ? shown.filter((one) => one !== id) : [...shown, id]),
  });
  toggle.checked = here;
  const budget = sayBudget && procedure.max_tokens ? `, ${number(procedure.max_tokens)} tokens` : "";
  const named = profiles.filter((name) => name !== "default");
  const under = named.length ? `, profile ${named.join(", ")}` : "";
  const state = stateLine(certificate);
  return h(
    "li",
    { class: here ? "chip shown" : "chip" },
    h(
      "a",
      { href: writeFragment("trust", { id }), "aria-current": here ? "true" : null },
      h("b", null, `${samplesWords(procedure)}${budget}${under}${kindWords({ kind })}`),
      h("small", null, alphas.length ? `α ${alphas.join(", ")}` : "no level certified"),
      state && h("small", null, state),
    ),
    h("label", null, toggle, h("span", null, "compare", h("span", { class: "unseen" }, ` with the others: ${samplesWords(procedure)}, ${id}`))),
  );
}

/**
 * @param {Pick<Certificate, "active" | "fits" | "withdrawn" | "voided">} certificate
 * @returns {string | null} null if its promise is given, as goes without saying
 */
export function stateLine(certificate) {
  const { mark, word, kind } = stateOf(certificate);
  return kind === "good" ? null : `${mark} ${word}`;
}

/** Since the start: questions, tokens spent and saved, and why samples stopped. */

import { h, setText } from "../dom.js";
import { EXITS } from "../exits.js";
import { count, measured, number, tokens } from "../format.js";
import { barList } from "./bar-list.js";
import { generated, sinceStart } from "./overview.js";
import { tile } from "./tile.js";

/** @typedef {import("./overview.js").Overview} Overview */
/** @typedef {import("./bar-list.js").Bar} Bar */

const KINDS = [
  ["reasoning", "thinking", ""],
  ["answer", "answers", "written by the model or forced"],
  ["cancelled", "cancelled samples", "generated before the sample was cancelled"],
  ["discarded", "discarded", "for example the token that stopped the thinking"],
  ["prompt", "prompts", ""],
  ["suffix", "forced suffixes", "inserted to ask for the answer, not generated"],
];

/** Why a question failed, to follow a number. @type {Record<string, string>} */
const FAILURES = {
  infeasible: "asked for a risk that is not certified",
  overloaded: "came while the queue was full",
  out_of_time: "took too long",
  engine_dead: "were lost when the engine stopped",
  cancelled: "were cancelled by the caller",
  not_ready: "came while the engine was starting",
  request_refused: "could not be served as asked",
  evidence_unavailable: "could not be recorded",
  internal: "failed by a fault of the service",
};

/** @returns {{ element: HTMLElement, update: (overview: Overview, rate: number | null) => void }} */
export function tokensSection() {
  const spent = tile("Tokens generated");
  const saved = tile("Tokens saved");
  const note = h("p", { class: "muted" });
  const kinds = barList("Tokens by kind");
  return {
    element: h("section", null, h("h3", null, "Tokens used and saved"), h("div", { class: "tiles two" }, spent.element, saved.element), note, kinds.element),
    update(overview, rate) {
      spent.set(number(generated(overview)), rate === null ? sinceStart(overview.figures) : `${sinceStart(overview.figures)}; ${number(rate)} per second now`);
      saved.set(...savedWords(overview.saved));
      setText(note, expectationWords(overview.saved));
      const by = overview.tokens;
      const most = Math.max(1, ...KINDS.map(([kind = ""]) => by[kind] ?? 0));
      kinds.update(
        KINDS.map(([kind = "", name = "", hint = ""]) => {
          const amount = by[kind] ?? 0;
          const cached = kind === "prompt" && by["cached_prompt"] ? `${number(by["cached_prompt"])} of them from the cache` : hint;
          return { name, note: cached, share: amount / most, text: tokens(amount) };
        }),
      );
    },
  };
}

/**
 * @param {Overview["saved"]} saved
 * @returns {[string, string, number?]} amount, what it is out of, and its share
 */
function savedWords({ share, saved_tokens: saved, over_tokens: over }) {
  if (share === null) return ["–", "nothing to compare yet"];
  const net = saved - over;
  if (net < 0) return ["0", `${number(-net)} more than the full budget`];
  return [number(net), `${measured(share)} of the full budget`, share];
}

/** @param {Overview["saved"]} saved */
function expectationWords({ share, full_budget_tokens: full }) {
  if (share === null) return "Savings are counted for questions that a certificate covers.";
  return `Without early stopping, all these questions would have cost about ${tokens(full)}, by the averages of the calibration (the full budget).`;
}

/** @returns {{ element: HTMLElement, update: (overview: Overview) => void }} */
export function exitsSection() {
  const list = barList("Samples by reason for stopping");
  const total = h("p", { class: "muted" });
  return {
    element: h("section", null, h("h3", null, "Why samples stopped"), total, list.element),
    update({ exits, figures }) {
      const all = Object.values(exits).reduce((sum, one) => sum + one, 0);
      setText(total, all ? `${count(all, "sample")} ${sinceStart(figures)}.` : `No sample has ended ${sinceStart(figures)}.`);
      list.update(
        Object.entries(EXITS).map(([name, { mark, word, role, meaning }]) => {
          const amount = exits[name] ?? 0;
          return { name: word, mark, role, note: meaning, share: all ? amount / all : 0, text: amountOf(amount, all) };
        }),
      );
    },
  };
}

/** @returns {{ element: HTMLElement, update: (overview: Overview) => void }} */
export function questionsSection() {
  const list = barList("Questions by outcome");
  const promised = h("p", { class: "muted" });
  return {
    element: h("section", null, h("h3", null, "Questions since the start"), promised, list.element),
    update({ questions, figures }) {
      const { answered, abstained, failed, guaranteed, failures } = questions;
      const all = answered + abstained + failed;
      setText(promised, all ? `${number(guaranteed)} of ${number(answered + abstained)} had a guarantee.` : `No question has been asked ${sinceStart(figures)}.`);
      const kinds = Object.entries(failures).map(([kind, amount]) => `${number(amount)} ${FAILURES[kind] ?? kind.replaceAll("_", " ")}`);
      /** @type {(name: string, mark: string, role: string, amount: number, note: string) => Bar} */
      const bar = (name, mark, role, amount, note) => ({ name, mark, role, note, share: all ? amount / all : 0, text: amountOf(amount, all) });
      list.update([
        bar("answered", "✓", "blue", answered, ""),
        bar("abstained", "–", "muted", abstained, "the confidence was too low, or no answer could be read"),
        bar("refused or failed", "✕", "orange", failed, kinds.join(", ")),
      ]);
    },
  };
}

/**
 * @param {number} amount
 * @param {number} all
 */
function amountOf(amount, all) {
  return all ? `${number(amount)} (${measured(amount / all)})` : number(amount);
}

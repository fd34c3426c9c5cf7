/** What was calibrated, beside what the engine is now, part by part. */

import { h } from "../dom.js";
import { number } from "../format.js";

/** @typedef {import("./report-data.js").ReportData} ReportData */
/** @typedef {import("./report-data.js").Fingerprint} Fingerprint */

/** @type {Record<string, string>} */
const PARTS = {
  model: "Model weights",
  probe: "Confidence probe",
  tokenizer: "Tokenizer",
  chat_template: "Prompt template",
  temperature: "Temperature",
  top_p: "Top-p",
  checkpoint_interval: "Tokens between readings",
  max_tokens: "Thinking budget, tokens",
  answer_max_tokens: "Longest answer, tokens",
  forced_suffix: "Forced suffix",
  grader: "Grader",
  samples: "Samples",
  vote: "Vote",
  system_prompt: "System prompt",
  user_template: "User template",
  template_variables: "Template variables",
  thinking: "Thinking format",
  top_k: "Top-k",
  min_p: "Min-p",
  extractor: "Answer extractor",
  answer_schema: "Answer schema",
  adapter: "LoRA adapter",
  ends: "Ends of a text",
  familiarity: "Familiarity reading",
  familiarity_cutoff: "Familiarity cutoff",
  dtype: "Data type",
  quantization: "Quantization",
  kv_cache_dtype: "KV cache data type",
  overrides: "vLLM overrides",
  attention_backend: "Attention backend",
  vllm: "vLLM version",
  model_runner: "Model runner",
  device: "Device",
  speculation: "Speculative decoding",
  lossy_speculation: "Speculative decoding that changes the distribution",
};

/** Parts that change numbers by rounding alone (EFFECTS in calibration/traces/fingerprint.py). */
const ROUNDING = new Set(["attention_backend", "vllm", "model_runner", "device", "speculation"]);

/** @param {string} name @returns {string} of a part of a fingerprint, in words */
export function partName(name) {
  return PARTS[name] ?? name.replaceAll("_", " ");
}

/**
 * @param {ReportData} report
 * @returns {HTMLElement} the verdict; the parts are shown once they are asked for
 */
export function fingerprintTable({ fingerprint, engine_fingerprint: engine, fits, misfit, voided }) {
  if (!fingerprint) return h("p", { class: "notice bad" }, "Its traces do not record their engine, so this certificate cannot be served.");
  const names = [...new Set([...Object.keys(fingerprint), ...Object.keys(engine ?? {})])];
  const different = engine ? names.filter((name) => fingerprint[name] !== engine[name]) : [];
  const rows = names.map((name) => rowOf(name, fingerprint, engine));
  const table = h(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": "Fingerprints, part by part" },
    h(
      "table",
      { class: "fingerprint" },
      h("thead", null, h("tr", null, ["Part", "Compared", "Calibrated", "Engine now"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, rows),
    ),
  );
  return h(
    "div",
    null,
    h("p", { class: "verdict" }, verdict({ parts: names.length, different, known: engine !== null, fits, voided })),
    fits === false && misfit && h("p", null, misfit),
    h("details", null, h("summary", null, "Part by part"), table),
  );
}

/**
 * @param {object} compared
 * @param {number} compared.parts
 * @param {string[]} compared.different
 * @param {boolean} compared.known whether the engine's fingerprint is
 * @param {boolean | null} compared.fits as the service says
 * @param {string | null} compared.voided
 * @returns {string}
 */
export function verdict({ parts, different, known, fits, voided }) {
  if (!known && fits === null) return "The engine is starting. Its fingerprint is compared when it is ready.";
  if (!known && fits === false) return "✕ It was fitted on another engine and cannot be served here.";
  if (voided) return `✕ The engine computes other numbers, so answers have no guarantee: ${voided}.`;
  if (!known) return "✓ The certificate applies to this engine. Which parts differ by rounding alone, only its report data says.";
  if (different.length === 0) return `✓ All ${parts} parts match: the certificate applies to this engine.`;
  if (different.every((name) => ROUNDING.has(name))) {
    return `✓ The certificate applies to this engine. ${different.length} of ${parts} parts differ, which changes numbers by rounding alone.`;
  }
  return `✕ ${different.length} of ${parts} parts differ: the certificate does not apply to this engine.`;
}

/**
 * @param {string} name
 * @param {Fingerprint} fingerprint
 * @param {Fingerprint | null} engine
 */
function rowOf(name, fingerprint, engine) {
  const equal = engine !== null && fingerprint[name] === engine[name];
  const compared = engine === null ? "○ not known" : equal ? "✓ equal" : ROUNDING.has(name) ? "○ rounding only" : "✕ different";
  return h(
    "tr",
    { class: engine && !equal ? "differs" : null },
    h("th", { scope: "row" }, partName(name)),
    h("td", { class: "compared" }, compared),
    h("td", null, h("code", null, shown(fingerprint[name]))),
    h("td", null, h("code", null, engine ? shown(engine[name]) : "–")),
  );
}

/** @param {string | number | boolean | undefined} value */
function shown(value) {
  if (value === undefined) return "–";
  if (typeof value === "number") return number(value, 4);
  return String(value).replaceAll("\n", "↵ ");
}

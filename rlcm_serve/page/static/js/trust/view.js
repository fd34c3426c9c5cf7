/** Trust: the guarantees, their figures, and the evidence for them. */

import { Problem, wasAborted } from "../api.js";
import { h, replace, setText } from "../dom.js";
import { writeFragment } from "../fragment.js";
import { certificateFor } from "../ask/levels.js";
import { comparison } from "./compare.js";
import { reportDataOf } from "./report-data.js";
import { certificatePanel } from "./panel.js";
import { MOST_COMPARED, picker } from "./picker.js";
import { askedWords, titleOf } from "./wording.js";

/** @typedef {import("./report-data.js").ReportData} ReportData */
/** @typedef {import("./report-data.js").Certificate} Certificate */

const LEAD = "A certificate promises a limit on how often answers are wrong. Here are its figures, and the problems on which they were measured.";

/**
 * @param {HTMLElement} root
 * @param {import("../main.js").App} app
 * @returns {import("../main.js").View}
 */
export function mount(root, app) {
  const title = h("h1");
  const lead = h("p", { class: "lead" });
  const choices = h("div");
  const content = h("div", { class: "certificates" });
  const more = h("div", { class: "certificates" });
  replace(root, title, lead, content, choices, more);

  /** @type {{ destroy: () => void }[]} */
  let shown = [];
  /** The ids of what is shown. */
  let drawn = "";
  let visible = false;
  let incomplete = false;
  let params = new URLSearchParams();
  /** @type {number | null} that is looked at; null: none was chosen yet */
  let alpha = null;
  /** @type {AbortController | null} */
  let asking = null;

  async function load() {
    asking?.abort();
    const mine = (asking = new AbortController());
    if (!shown.length) replace(content, loading());
    try {
      const { certificates, max_tokens } = await app.api.get("certificates", mine.signal);
      if (mine.signal.aborted) return;
      const applies = app.question && certificateFor(certificates, app.question, max_tokens);
      const ids = idsOf(params, certificates, applies?.id);
      name(ids.length);
      setText(lead, `${LEAD}${app.question && applies && ids[0] === applies.id ? askedWords(app.question, applies) : ""}`);
      const focused = document.activeElement?.getAttribute("data-id");
      replace(choices, certificates.length ? picker(certificates, ids, (next) => app.navigate(writeFragment("trust", { id: next }))) : []);
      if (shown.length && ids.join() !== drawn) {
        clear(); // the picker has those that come marked already
        replace(content, loading());
      }
      if (focused) /** @type {HTMLElement | null} */ (choices.querySelector(`input[data-id="${CSS.escape(focused)}"]`))?.focus();
      const reports = await Promise.all(ids.map((id) => report(id, certificates, mine.signal)));
      if (mine.signal.aborted) return;
      draw(reports);
      drawn = ids.join();
    } catch (error) {
      if (!(error instanceof Problem) && !wasAborted(error)) throw error;
      if (error instanceof Problem && !mine.signal.aborted) failed(error);
    }
  }

  /**
   * @param {string} id
   * @param {Certificate[]} certificates
   * @param {AbortSignal} signal
   * @returns {Promise<ReportData | Problem>}
   */
  async function report(id, certificates, signal) {
    const own = certificates.find((one) => one.id === id);
    try {
      return { missing: null, refusal: own?.refusal ?? null, ...(await app.api.get(`certificates/${encodeURIComponent(id)}/report`, signal)) };
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 404) throw error;
      return own ? reportDataOf(own, error.detail) : error;
    }
  }

  /** @param {(ReportData | Problem)[]} found */
  function draw(found) {
    clear();
    /** @type {ReportData[]} */
    const reports = [];
    /** @type {HTMLElement[]} */
    const notes = [];
    for (const one of found) one instanceof Problem ? notes.push(notice(one)) : reports.push(one);
    incomplete = reports.some((one) => one.fits === null);
    if (!found.length) return replace(content, nothing());
    if (reports.length > 1) {
      const compared = comparison(reports, remember);
      replace(content, notes, compared.element);
      compared.show(alpha);
      shown = [compared];
    } else {
      const panels = reports.map((one) => certificatePanel(one, remember));
      replace(content, notes, panels.map(({ front }) => front));
      replace(more, panels.map(({ rest }) => rest));
      for (const panel of panels) {
        panel.draw();
        panel.show(alpha);
      }
      shown = panels;
    }
    app.announce(reports.map(titleOf).join("; "));
  }

  /** @param {number} chosen α of the level that is looked at now */
  function remember(chosen) {
    alpha = chosen;
    params.set("alpha", String(chosen));
    app.rewrite(writeFragment("trust", params));
  }

  function clear() {
    for (const one of shown) one.destroy();
    shown = [];
    replace(more);
  }

  /** @param {number} several how many are looked at */
  function name(several) {
    root.classList.toggle("comparing", several > 1);
    setText(title, several > 1 ? "Certificates side by side" : "Guarantees and their evidence");
    lead.hidden = several > 1;
  }

  /** @param {Problem} problem */
  function failed(problem) {
    clear();
    replace(content, notice(problem, () => app.retry(problem, load)));
    app.engine.check();
  }

  // What the engine is can be compared once it has started; what failed may work then.
  app.engine.subscribe(({ state }) => {
    if (visible && state === "ready" && (incomplete || content.querySelector(".retry"))) load();
  });

  return {
    show(next) {
      visible = true;
      name(next.getAll("id").length);
      if (drawn && next.getAll("id").join() !== params.getAll("id").join()) scrollTo(0, 0);
      params = next;
      // A certificate chosen from the list is looked at on the same level.
      alpha = Number(params.get("alpha")) || (params.has("id") ? alpha : null) || (app.question?.alpha ?? null);
      load();
    },
    hide() {
      visible = false;
      asking?.abort();
    },
  };
}

/**
 * @param {URLSearchParams} params
 * @param {Certificate[]} certificates
 * @param {string} [applies] to the settings of Ask
 * @returns {string[]} the requested ones; otherwise the one that applies, or the active one that answers a plain question
 */
function idsOf(params, certificates, applies) {
  const asked = [...new Set(params.getAll("id"))].slice(0, MOST_COMPARED);
  if (asked.length) return asked;
  if (applies) return [applies];
  const active = certificates.filter(({ active }) => active);
  const usual = active.filter(({ risk, kind }) => risk === "selective" && !kind?.name).sort((a, b) => a.procedure.n - b.procedure.n);
  const first = usual[0] ?? active[0] ?? certificates[0];
  return first ? [first.id] : [];
}

function loading() {
  return h("div", { class: "loading", role: "status" }, h("p", null, "Loading the certificates…"), h("div", { class: "bone tall" }), h("div", { class: "bone" }), h("div", { class: "bone" }));
}

function nothing() {
  return h(
    "div",
    { class: "notice" },
    h("h2", null, "No certificate is loaded"),
    h("p", null, "Without one, every question uses the full budget, and its answer has no guarantee."),
    h("p", null, "To make one, send problems with known answers to ", h("code", null, "POST /calibrations"), ". You can follow the job and its log under ", h("a", { href: "#/operate" }, "Operate"), "."),
  );
}

/**
 * @param {Problem} problem
 * @param {() => void} [again]
 */
function notice(problem, again) {
  const title = { 401: "This needs an API key", 403: problem.refusesKey && "This key may not read certificates", 404: "There is no such certificate", 0: "The service cannot be reached" }[problem.status] || problem.title;
  return h(
    "div",
    { class: "notice bad", role: "alert" },
    h("h2", null, title),
    h("p", null, problem.detail),
    again && h("button", { type: "button", class: "retry", onclick: again }, problem.retryWords("Try again")),
  );
}

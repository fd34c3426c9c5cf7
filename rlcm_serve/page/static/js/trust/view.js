/** Trust: the guarantees, their figures, and the evidence for them. */

import { Problem, wasAborted } from "../api.js";
import { h, replace } from "../dom.js";
import { writeFragment } from "../fragment.js";
import { comparison } from "./compare.js";
import { reportDataOf } from "./report-data.js";
import { certificatePanel } from "./panel.js";
import { MOST_COMPARED, picker } from "./picker.js";
import { titleOf } from "./wording.js";

/** @typedef {import("./report-data.js").ReportData} ReportData */
/** @typedef {import("./report-data.js").Certificate} Certificate */

/**
 * @param {HTMLElement} root
 * @param {import("../main.js").App} app
 * @returns {import("../main.js").View}
 */
export function mount(root, app) {
  const choices = h("div");
  const content = h("div", { class: "certificates" });
  replace(
    root,
    h("h1", null, "Guarantees and their evidence"),
    h(
      "p",
      { class: "lead" },
      "Early stopping loses some right answers. A certificate records a calibration: tests on problems with known answers that show how early the model may stop while it keeps the risk you accept.",
    ),
    choices,
    content,
  );

  /** @type {{ destroy: () => void }[]} */
  let shown = [];
  /** The ids of what is shown. */
  let drawn = "";
  let visible = false;
  let incomplete = false;
  let params = new URLSearchParams();
  /** @type {AbortController | null} */
  let asking = null;

  async function load() {
    asking?.abort();
    const mine = (asking = new AbortController());
    if (!shown.length) replace(content, loading());
    try {
      const { certificates } = await app.api.get("certificates", mine.signal);
      if (mine.signal.aborted) return;
      const ids = idsOf(params, certificates);
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
    try {
      return { missing: null, ...(await app.api.get(`certificates/${encodeURIComponent(id)}/report`, signal)) };
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 404) throw error;
      const own = certificates.find((one) => one.id === id);
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
    const alpha = Number(params.get("alpha")) || null;
    const several = reports.length > 1;
    const compared = several ? comparison(reports) : null;
    const panels = reports.map((one, at) =>
      certificatePanel(one, { explain: at === 0, folded: several, onLevel: remember }),
    );
    const titles = reports.map((one, at) => (several ? titled(one, panels[at]?.element) : panels[at]?.element ?? null));
    replace(content, notes, compared?.element, h("div", { class: several ? `panels several of-${reports.length}` : "panels" }, titles));
    compared?.draw();
    for (const panel of panels) {
      panel.draw();
      panel.show(alpha);
    }
    shown = compared ? [compared, ...panels] : panels;
    app.announce(reports.map(titleOf).join("; "));
  }

  /** @param {number} alpha of the level that is looked at now */
  function remember(alpha) {
    params.set("alpha", String(alpha));
    app.rewrite(writeFragment("trust", params));
  }

  function clear() {
    for (const one of shown) one.destroy();
    shown = [];
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
      params = next;
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
 * @returns {string[]} the requested ones; otherwise the active one that answers a plain question
 */
function idsOf(params, certificates) {
  const asked = [...new Set(params.getAll("id"))].slice(0, MOST_COMPARED);
  if (asked.length) return asked;
  const active = certificates.filter(({ active }) => active);
  const usual = active.filter(({ risk, kind }) => risk === "selective" && !kind?.name).sort((a, b) => a.procedure.n - b.procedure.n);
  const first = usual[0] ?? active[0] ?? certificates[0];
  return first ? [first.id] : [];
}

/**
 * @param {ReportData} report
 * @param {HTMLElement | undefined} panel
 */
function titled(report, panel) {
  if (!panel) return null;
  panel.prepend(h("h2", { class: "panel-title" }, titleOf(report)));
  return panel;
}

function loading() {
  return h("div", { class: "loading", role: "status" }, h("p", null, "Loading the certificates…"), h("div", { class: "bone tall" }), h("div", { class: "bone" }), h("div", { class: "bone" }));
}

function nothing() {
  return h(
    "div",
    { class: "notice" },
    h("h2", null, "No certificate is loaded"),
    h("p", null, "Questions use the full budget, and answers have no guarantee."),
    h("p", null, "To create one, post problems with known answers to ", h("code", null, "POST /calibrations"), "; follow the job and its log under ", h("a", { href: "#/operate" }, "Operate"), "."),
  );
}

/**
 * @param {Problem} problem
 * @param {() => void} [again]
 */
function notice(problem, again) {
  const title = { 401: "This needs an API key", 403: "This key may not read certificates", 404: "No such certificate", 0: "The service cannot be reached" }[problem.status] ?? problem.title;
  return h(
    "div",
    { class: "notice bad", role: "alert" },
    h("h2", null, title),
    h("p", null, problem.detail),
    again && h("button", { type: "button", class: "retry", onclick: again }, problem.retryWords("Try again")),
  );
}

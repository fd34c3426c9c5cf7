/** Asking a question and watching it answered. */

import { Problem, wasAborted } from "../api.js";
import { h, replace } from "../dom.js";
import { bar } from "./bar.js";
import { askForm } from "./form.js";
import { certificateFor, certifiedLevels, usualTokens } from "./levels.js";
import { picker } from "./picker.js";
import { fragmentOf, questionOf, requestOf } from "./question.js";
import { trouble } from "./trouble.js";

/**
 * @typedef {import("../main.js").App} App
 * @typedef {import("./question.js").Question} Question
 * @typedef {import("./levels.js").Certificate} Certificate
 * @typedef {import("../watch/view.js").Watch} Watch
 */

/**
 * @param {HTMLElement} root
 * @param {App} app
 * @returns {import("../main.js").View}
 */
export function mount(root, app) {
  /** @type {Certificate[]} */
  let certificates = [];
  /** @type {AbortController | null} */
  let running = null;
  /** @type {Watch | null} */
  let watching = null;

  const examples = picker(
    () => app.api.get("page/examples.json"),
    (problem) => form.write({ problem }),
  );
  const form = askForm((question) => ask(question), examples.element);
  const asked = bar({ stop, change, share: async () => navigator.clipboard.writeText(location.href) });
  const notices = h("div", { class: "notices" });
  const stage = h("div", { class: "stage" });
  const intro = h(
    "div",
    { class: "intro" },
    h("h1", null, "Say how often it may be wrong. Watch it decide when to stop."),
    h("p", null, "The model thinks, and reads its own confidence as it goes. The risk you accept sets how confident it must be to stop, with a statistical guarantee."),
    form.element,
  );
  root.append(intro, asked.element, notices, stage);

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !running || root.hidden || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    stop();
  });

  async function learn() {
    try {
      certificates = (await app.api.get("certificates")).certificates;
      form.know(certificates);
    } catch {
      // Without the list nothing is named on the sliders; asking says what is wrong.
    }
  }

  /**
   * @param {Question} question
   * @param {object} [extra] further fields of the request
   */
  async function ask(question, extra = {}) {
    running?.abort();
    watching?.destroy();
    replace(notices);
    const controller = new AbortController();
    running = controller;
    if (fragmentOf(form.read()) !== fragmentOf(question)) form.write(question);
    app.rewrite(fragmentOf(question));
    intro.hidden = true;
    asked.show(question, true);
    asked.say("sent");
    asked.focus();
    if (scrollY > 0) scrollTo({ top: 0 });
    app.announce("Sent. The model is thinking.");
    try {
      const { watch, progress } = await import("../watch/view.js");
      if (running !== controller) return;
      const shown = watch(question, (start) => usualTokens(certificates, start));
      watching = shown;
      stage.append(shown.element);
      await whenReady(controller.signal);
      try {
        await stream(question, extra, shown, controller.signal);
      } catch (error) {
        shown.cut();
        throw Object.assign(/** @type {Error} */ (error), { sofar: shown.run.start ? progress(shown.run) : undefined });
      }
    } catch (error) {
      if (running === controller) await failed(question, extra, /** @type {Error} */ (error));
    } finally {
      if (running === controller) settled(question);
    }
  }

  /**
   * @param {Question} question
   * @param {object} extra
   * @param {Watch} shown
   * @param {AbortSignal} signal
   */
  async function stream(question, extra, shown, signal) {
    /** @type {Problem | null} */
    let failure = null;
    await app.api.events(
      "solve",
      { ...requestOf(question), ...extra },
      (name, data) => {
        if (name === "error") failure = new Problem(data);
        else shown.take(name, data);
        if (name === "start") asked.say("thinking …");
      },
      signal,
    );
    if (failure) throw failure;
    if (!shown.run.solution) {
      throw new Problem({ status: 0, type: "connection-lost", detail: "The stream ended before the answer." });
    }
    if (!certificates.length) await learn(); // there was no key yet
    const { heading, spoken } = shown.finish(certifiedLevels(certificateFor(certificates, question)));
    app.announce(spoken);
    asked.say("");
    if (!root.hidden && root.contains(document.activeElement)) heading.focus({ preventScroll: true });
  }

  /**
   * Waits for an engine that is starting.
   *
   * @param {AbortSignal} signal
   */
  async function whenReady(signal) {
    const { state, stage: word } = app.engine.now();
    if (state !== "starting" && state !== "restarting") return;
    const doing = state === "starting" ? "The engine is starting" : "The engine is being started again";
    const text = `${doing}${word ? ` (${word})` : ""}. This takes about a minute. Your question is asked as soon as it is ready.`;
    replace(notices, h("div", { class: "notice", role: "status" }, h("h2", null, "Waiting for the engine"), h("p", null, text)));
    asked.say("waiting for the engine");
    await new Promise((/** @type {(value: void) => void} */ resolve, reject) => {
      const end = app.engine.subscribe(({ state: next }) => next === "ready" && finish(resolve));
      const abort = () => finish(() => reject(signal.reason));
      signal.addEventListener("abort", abort, { once: true });
      /** @param {() => void} settle */
      function finish(settle) {
        signal.removeEventListener("abort", abort);
        queueMicrotask(() => end()); // it may be called while subscribing
        settle();
      }
    });
    replace(notices);
  }

  /**
   * @param {Question} question
   * @param {object} extra further fields of the request, to ask it again as it was
   * @param {Error & { sofar?: string }} error
   */
  async function failed(question, extra, error) {
    asked.say("");
    if (wasAborted(error)) {
      const what = error.sofar ? `${error.sofar}. ` : "";
      const text = `${what}The engine has ended its work on it too. There is no answer.`;
      replace(notices, h("div", { class: "notice", role: "status" }, h("h2", null, "You stopped it"), h("p", null, text)));
      app.announce("Stopped.");
      return;
    }
    if (!(error instanceof Problem)) console.error(error);
    const problem = error instanceof Problem ? error : new Problem({ title: "The page failed", detail: error.message });
    if (problem.status === 0 || problem.status >= 500) await app.engine.check();
    if (problem.kind === "not-ready" && ["starting", "restarting"].includes(app.engine.now().state)) {
      ask(question, extra); // waits until it is ready
      return;
    }
    const remedies = {
      again: (/** @type {any} */ { on_infeasible, ...part }) => ask({ ...question, ...part }, on_infeasible ? { on_infeasible } : {}),
      key: () => ask(question, extra),
      engine: app.engine,
    };
    replace(notices, trouble(problem, question, remedies, error.sofar));
    const heading = notices.querySelector("h2");
    if (!root.hidden) heading?.focus({ preventScroll: true });
  }

  /** @param {Question} question */
  function settled(question) {
    const focused = asked.element.contains(document.activeElement);
    running = null;
    asked.show(question, false);
    if (focused) asked.focus();
  }

  function stop() {
    running?.abort();
  }

  function change() {
    asked.element.hidden = true;
    intro.hidden = false;
    replace(notices);
    watching?.destroy();
    watching = null;
    form.focus();
  }

  async function prepare() {
    const { warmUp } = await import("../watch/view.js");
    if (!running) warmUp();
  }

  // Which certificates are in force is known once the engine is.
  app.engine.subscribe(({ state }) => {
    if (state === "ready") learn();
  });
  // Safari has no idle callbacks.
  if ("requestIdleCallback" in globalThis) requestIdleCallback(prepare);
  else setTimeout(prepare, 500);
  if (app.about.examples) examples.fill().catch(() => {});
  return {
    show(params) {
      if (running) return;
      const linked = questionOf(params);
      const known = watching !== null && fragmentOf(form.read()) === fragmentOf(linked);
      if (params.size && !known) {
        if (watching) change();
        const { problem, ...settings } = linked;
        form.write(params.has("problem") ? linked : settings);
      }
      if (!intro.hidden && !root.contains(document.activeElement)) form.focus();
    },
    hide() {}, // a question goes on while another view is looked at
  };
}

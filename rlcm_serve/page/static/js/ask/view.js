/** Asking a question and watching it answered. */

import { Problem, wasAborted } from "../api.js";
import { h, replace, setText } from "../dom.js";
import { parseFragment } from "../fragment.js";
import { bar } from "./bar.js";
import { askForm } from "./form.js";
import { knownCertificates } from "./known.js";
import { certificateOf, certifiedLevels, usualTokens } from "./levels.js";
import { picker } from "./picker.js";
import { fragmentOf, questionOf, requestOf } from "./question.js";
import { trouble } from "./trouble.js";
import { untilReady, willBeReady } from "./waiting.js";
import { welcome } from "./welcome.js";

/**
 * @typedef {import("../main.js").App} App
 * @typedef {import("./question.js").Question} Question
 * @typedef {import("../watch/view.js").Watch} Watch
 *
 * @typedef {{ sent: boolean, drawn: string }} Progress of a question: `drawn` says in words how far it came
 */

/** From one rewriting of the address to the next: browsers allow about three a second. */
const DRAFT_MS = 400;

/**
 * @param {HTMLElement} root
 * @param {App} app
 * @returns {import("../main.js").View}
 */
export function mount(root, app) {
  /** @type {AbortController | null} */
  let running = null;
  /** @type {Watch | null} */
  let watching = null;
  /** What the address says of this view; "" while nothing was written or asked. */
  let address = "";
  let drafting = 0;

  const examples = picker(() => app.api.get("page/examples.json"), {
    read: () => form.read().problem,
    write: (problem) => {
      form.write({ problem });
      drafted();
    },
    focus: () => form.focus(),
  });
  const form = askForm(ask, drafted, examples.element);
  const known = knownCertificates(app.api, app.engine, ({ certificates, max_tokens }) => form.know(certificates, max_tokens));
  const asked = bar({ stop, change, share: async () => navigator.clipboard.writeText(linkOf(form.read())) });
  const notices = h("div", { class: "notices" });
  const stage = h("div", { class: "stage" });
  const greeting = welcome(app, askOwn);
  const intro = h(
    "div",
    { class: "intro" },
    h("h1", null, app.about.demo ? "Ask your own question" : "Say how often the answer may be wrong. Watch the model decide when to stop."),
    h("p", null, `${app.about.demo ? "" : "The model stops as soon as it is confident enough for the risk you accept. "}The promise holds only for questions like the tested ones${app.about.examples ? " (the examples below)" : ""}. With the answer you see whether yours is one.`),
    form.element,
    app.about.demo && h("p", null, h("button", { type: "button", class: "quiet", onclick: showDemo }, "▶ Watch the twenty-second demo")),
  );
  root.append(greeting.element, intro, asked.element, notices, stage);

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !running || root.hidden || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    stop();
  });

  function drafted() {
    clearTimeout(drafting);
    drafting = setTimeout(keep, DRAFT_MS);
  }

  /** Puts what is written or asked into the address, unless that is another view's by now. */
  function keep() {
    clearTimeout(drafting);
    if (parseFragment(location.hash).view !== "ask") return;
    address = fragmentOf(form.read());
    app.rewrite(address);
  }

  async function showDemo() {
    intro.hidden = true;
    if (!(await greeting.show())) intro.hidden = false;
  }

  /** @param {number} alpha that the visitor has left the demo at */
  function askOwn(alpha) {
    greeting.leave();
    intro.hidden = false;
    known.refresh();
    form.write({ alpha, n: 1 }); // as in the demo
    form.focus();
  }

  /** @param {Question} question */
  async function ask(question) {
    running?.abort();
    watching?.destroy();
    replace(notices);
    const controller = new AbortController();
    running = controller;
    if (fragmentOf(form.read()) !== fragmentOf(question)) form.write(question);
    keep();
    intro.hidden = true;
    delete asked.element.dataset.covered;
    asked.show(question, true);
    asked.say("sent");
    if (!root.hidden) {
      asked.focus();
      if (scrollY > 0) scrollTo({ top: 0 });
    }
    app.announce("Sent. The model is thinking.");
    /** @type {Progress} */
    const progress = { sent: false, drawn: "" };
    try {
      const { watch, progressOf } = await import("../watch/view.js");
      if (running !== controller) return;
      const shown = watch(question, (start) => usualTokens(known.all(), start));
      watching = shown;
      stage.append(shown.element);
      try {
        await whenReady(controller.signal);
        progress.sent = true;
        await stream(question, shown, controller.signal);
      } catch (error) {
        shown.cut();
        if (shown.run.start) progress.drawn = progressOf(shown.run);
        throw error;
      }
    } catch (error) {
      if (running === controller) await failed(question, /** @type {Error} */ (error), progress, controller);
    } finally {
      if (running === controller) settled(question);
    }
  }

  /**
   * @param {Question} question
   * @param {Watch} shown
   * @param {AbortSignal} signal
   */
  async function stream(question, shown, signal) {
    /** @type {Problem | null} */
    let failure = null;
    await app.api.events(
      "solve",
      requestOf(question),
      (name, data) => {
        if (name === "error") failure = new Problem(data);
        else shown.take(name, data);
        if (name === "start") asked.say("thinking …");
      },
      signal,
    );
    if (failure) throw failure;
    const { start, solution } = shown.run;
    if (!start || !solution) {
      throw new Problem({ status: 0, type: "connection-lost", detail: "The stream ended before the answer." });
    }
    await known.after({ start, solution });
    if (running?.signal !== signal) return; // another has been asked meanwhile
    asked.element.dataset.covered = String(Boolean(solution.guarantee));
    const { heading, spoken } = shown.finish(certifiedLevels(certificateOf(known.all(), start.guarantee)));
    app.announce(spoken);
    asked.say("");
    if (!root.hidden && root.contains(document.activeElement)) heading.focus({ preventScroll: true });
  }

  /** @param {AbortSignal} signal */
  async function whenReady(signal) {
    signal.throwIfAborted();
    if (!willBeReady(app.engine.now())) return;
    const text = h("p");
    replace(notices, h("div", { class: "notice", role: "status" }, h("h2", null, "Waiting for the engine"), text));
    asked.say("waiting for the engine");
    await untilReady(app.engine, signal, (words) => setText(text, words));
    replace(notices);
    asked.say("sent");
  }

  /**
   * @param {Question} question
   * @param {Error} error
   * @param {Progress} progress
   * @param {AbortController} controller
   */
  async function failed(question, error, progress, controller) {
    asked.say("");
    if (wasAborted(error)) return stopped(progress);
    if (!(error instanceof Problem)) console.error(error);
    const problem = error instanceof Problem ? error : new Problem({ title: "The page failed", detail: error.message });
    if (problem.status === 0 || problem.status >= 500) await app.engine.check();
    if (running !== controller) return;
    if (problem.kind === "not-ready" && willBeReady(app.engine.now())) {
      if (controller.signal.aborted) stopped({ ...progress, sent: false });
      else ask(question); // waits until it is ready
      return;
    }
    const remedies = {
      again: (/** @type {Partial<Question>} */ part) => ask({ ...question, ...part }),
      key: () => app.retry(problem, () => ask(question)),
      isCovered: known.covers(question),
      engine: app.engine,
    };
    replace(notices, trouble(problem, question, remedies, progress.drawn));
    const heading = notices.querySelector("h2");
    if (!root.hidden) heading?.focus({ preventScroll: true });
  }

  /** @param {Progress} progress */
  function stopped({ sent, drawn }) {
    const ended = `${drawn && `${drawn}. `}The engine stopped as well. There is no answer.`;
    const text = sent ? ended : "The engine had not started on your question. There is no answer.";
    replace(notices, h("div", { class: "notice", role: "status" }, h("h2", null, "You stopped the question"), h("p", null, text)));
    app.announce("Stopped.");
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
    known.refresh();
    form.focus();
  }

  async function prepare() {
    const { warmUp } = await import("../watch/view.js");
    if (!running) warmUp();
  }

  // Which certificates are active is known once the engine is.
  app.engine.subscribe(({ state }) => {
    // The demo needs no certificates, and who looks at it is asked for no key.
    if (state === "ready" && !greeting.isFirst()) known.learn();
  });
  // Safari has no idle callbacks.
  if ("requestIdleCallback" in globalThis) requestIdleCallback(prepare);
  else setTimeout(prepare, 500);
  if (app.about.examples) examples.fill().catch(() => {});
  return {
    show(params) {
      const linked = questionOf(params);
      const isNew = params.size > 0 && fragmentOf(linked) !== address;
      if (isNew && !running) {
        greeting.pass();
        if (intro.hidden) change();
        clearTimeout(drafting);
        const { problem, ...settings } = linked;
        form.write(params.has("problem") ? linked : settings);
        address = fragmentOf(form.read());
      } else if (address) keep();
      if (!address && !running && greeting.isFirst()) return showDemo();
      known.refresh();
      if (!intro.hidden && !root.contains(document.activeElement)) form.focus();
      return undefined;
    },
    // A question goes on while another view is looked at; Trust shows the evidence for its settings.
    hide() {
      const alpha = greeting.alpha();
      app.question = alpha === null ? form.read() : { ...form.read(), alpha, n: 1 };
    },
  };
}

/** @param {Question} question */
function linkOf(question) {
  return new URL(fragmentOf(question), location.href).href;
}

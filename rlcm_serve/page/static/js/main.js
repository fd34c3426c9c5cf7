/** The page's frame: which view is shown, the engine's state, the API key. */

import { createApi } from "./api.js";
import { byId, h, replace, setText } from "./dom.js";
import { watchEngine } from "./engine.js";
import { parseFragment } from "./fragment.js";
import { createKeyring } from "./key.js";

/**
 * @typedef {import("./api.js").Api} Api
 * @typedef {import("./api.js").Problem} Problem
 * @typedef {import("./engine.js").EngineWatch} EngineWatch
 * @typedef {import("./fragment.js").ViewName} ViewName
 */

/**
 * What `GET /page/about` says.
 *
 * @typedef {{ model: string, version: string, keys: boolean, examples: boolean, demo: boolean,
 *   heartbeat_s: number }} About `heartbeat_s`: from one sign of life in a stream to the next
 */

/**
 * What the page offers to its views.
 *
 * @typedef {object} App
 * @property {Api} api
 * @property {About} about
 * @property {EngineWatch} engine
 * @property {import("./ask/question.js").Question | null} question with the settings that Ask was left with; null if it was
 *   not looked at
 * @property {(fragment: string) => void} navigate goes to a fragment; the browser's history has it
 * @property {(fragment: string) => void} rewrite puts a fragment into the address, and stays
 * @property {(text: string) => void} announce says something to those who listen to the page
 * @property {(problem: Problem, again: () => void) => void} retry tries again, and asks for a key first if it was one that
 *   was refused
 */

/**
 * A view: made once when it is first shown, `show` whenever it is gone to or its settings change,
 * `hide` when it is left (it should then do no work). Its module exports
 * `mount(root: HTMLElement, app: App): View`.
 *
 * @typedef {object} View
 * @property {(params: URLSearchParams) => void | Promise<void>} show until a promise that it gives is kept, nothing is shown
 * @property {() => void} hide
 */

/** @type {Record<ViewName, () => Promise<{ mount: (root: HTMLElement, app: App) => View }>>} */
const MODULES = {
  ask: () => import("./ask/view.js"),
  trust: () => import("./trust/view.js"),
  operate: () => import("./operate/view.js"),
};
const TITLES = { ask: "Ask", trust: "Trust", operate: "Operate" };

const base = new URL(".", document.baseURI);
const keyring = createKeyring();
/** Some heartbeats, and a minute at least: a busy network may lose one. */
const silenceMs = () => Math.max(60_000, 4_000 * app.about.heartbeat_s);
const api = createApi({ base, getKey: keyring.get, onKeyNeeded: keyring.ask, silenceMs });
const engine = watchEngine(base);

/** @type {App} */
const app = {
  api,
  about: { model: "", version: "", keys: false, examples: false, demo: false, heartbeat_s: 15 },
  engine,
  question: null,
  navigate(fragment) {
    location.hash = fragment;
  },
  rewrite(fragment) {
    history.replaceState(null, "", fragment);
  },
  announce(text) {
    setText(byId("announcer"), text);
  },
  async retry(problem, again) {
    if (!problem.refusesKey || (await keyring.ask(problem))) again();
  },
};

const told = about();
/** @type {Map<ViewName, { root: HTMLElement, view: View }>} */
const mounted = new Map();
/** @type {ViewName | null} */
let shown = null;
/** In the views' place until the first of them is there: what the page is for, where it begins with that. */
const opening = byId("opening");
const waiting = h("p", { class: "muted" }, "Loading …");

async function route() {
  const { view: name, params } = parseFragment(location.hash);
  for (const link of document.querySelectorAll("nav a[data-view]")) {
    const here = link.getAttribute("data-view") === name;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${TITLES[name]} · rlcm-serve`;
  const left = shown;
  if (left && left !== name) {
    const previous = mounted.get(left);
    previous?.view.hide();
    if (previous) previous.root.hidden = true;
  }
  shown = name;
  if (name !== "ask") replace(opening, waiting);
  try {
    const found = mounted.get(name) ?? (await mount(name));
    if (shown !== name) return; // gone to another one meanwhile
    found.root.hidden = false;
    Promise.resolve(found.view.show(params)).finally(() => opening.remove());
    const taken = found.root.contains(document.activeElement); // by what the view wants to be written in
    if (left && left !== name && !taken) byId("main").focus({ preventScroll: true });
  } catch (error) {
    failed(name, /** @type {Error} */ (error));
  }
}

/** @param {ViewName} name */
async function mount(name) {
  const [module] = await Promise.all([MODULES[name](), told]);
  const known = mounted.get(name);
  if (known) return known;
  const root = h("section", { class: `view ${name}`, hidden: true });
  byId("main").append(root);
  const made = { root, view: module.mount(root, app) };
  mounted.set(name, made);
  return made;
}

/**
 * @param {ViewName} name
 * @param {Error} error
 */
function failed(name, error) {
  console.error(error);
  opening.remove();
  const again = h("button", { type: "button", onclick: () => location.reload() }, "Reload the page");
  const text = `The view “${TITLES[name]}” could not be loaded: ${error.message}`;
  const notice = h("section", { class: "view" }, h("div", { class: "notice bad", role: "alert" }, h("p", null, text), again));
  byId("main").append(notice);
  addEventListener("hashchange", () => notice.remove(), { once: true });
}

const STATES = {
  unknown: ["○", "connecting"],
  ready: ["●", "ready"],
  starting: ["◐", "engine starting"],
  restarting: ["◐", "engine restarting"],
  failed: ["✕", "engine failed"],
  stopping: ["◐", "stopping"],
  degraded: ["◐", "database down"],
  gone: ["✕", "not reachable"],
};
engine.subscribe(({ state }) => {
  const [mark, text] = STATES[state];
  byId("engine").dataset.state = state;
  setText(byId("engine-mark"), mark ?? "");
  setText(byId("engine-text"), text ?? "");
});

async function about() {
  try {
    app.about = await api.get("page/about");
    byId("key-button").hidden = !app.about.keys;
  } catch {
    // The page works without knowing; the engine's state says what is wrong.
  }
}

byId("key-button").addEventListener("click", async () => {
  if (await keyring.ask(null)) route(); // for what was refused without it
});
// The link to the content must not go through the routes.
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
opening.append(waiting);
addEventListener("hashchange", route);
await route();

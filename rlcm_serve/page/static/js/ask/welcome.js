/** The demo before the form: shown until the visitor has asked for the form, which is remembered. */

import { h, replace } from "../dom.js";

const SEEN = "rlcm-demo-seen";

/**
 * @typedef {object} Welcome
 * @property {HTMLElement} element
 * @property {() => boolean} isFirst whether there is a demo that comes before the form, or is shown
 * @property {() => Promise<boolean>} show whether it could be loaded
 * @property {() => number | null} alpha that the demo shows; null while it is not shown
 * @property {() => void} pass takes it away this time
 * @property {() => void} leave takes it away for good
 *
 * @param {import("../main.js").App} app
 * @param {(alpha: number) => void} onAsk the visitor wants to ask
 * @returns {Welcome}
 */
export function welcome(app, onAsk) {
  const element = h("div", { class: "welcome", hidden: true });
  /** @type {{ element: HTMLElement, alpha: () => number, play: () => void, stop: () => void } | null} */
  let demo = null;
  let left = false;

  return {
    element,
    isFirst: () => !element.hidden || (app.about.demo && !left && !remembered()),
    async show() {
      left = false;
      element.hidden = false;
      try {
        demo ??= await load(onAsk);
      } catch (error) {
        console.info(error);
        element.hidden = true;
        left = true;
        return false;
      }
      if (left) return true;
      if (!demo.element.isConnected) replace(element, demo.element);
      demo.play();
      return true;
    },
    alpha: () => (demo && !element.hidden ? demo.alpha() : null),
    pass,
    leave() {
      pass();
      remember();
    },
  };

  function pass() {
    demo?.stop();
    element.hidden = true;
    left = true;
  }

  /** @param {(alpha: number) => void} ask */
  async function load(ask) {
    const [{ demoView }, data] = await Promise.all([import("../demo/view.js"), app.api.get("page/demo")]);
    const kind = app.about.examples ? "arithmetic puzzles" : "questions";
    return demoView(data, ask, kind);
  }
}

function remembered() {
  try {
    return localStorage.getItem(SEEN) !== null;
  } catch {
    return false; // storage may be forbidden
  }
}

function remember() {
  try {
    localStorage.setItem(SEEN, "yes");
  } catch {
    // Then the demo comes again.
  }
}

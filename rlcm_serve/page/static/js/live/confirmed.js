/** A button that asks before anything changes, and says what came of it. */

import { Problem } from "../api.js";
import { h, setText } from "../dom.js";
import { sentence } from "../format.js";

/**
 * @param {object} options
 * @param {string} options.verb what the button does, of the certificate `id`
 * @param {string} options.id
 * @param {string} options.question what will happen
 * @param {string} options.yes name of the button that does it
 * @param {string} options.not how a refusal begins
 * @param {() => Promise<string>} options.run does it; what is said then
 * @returns {{ element: HTMLElement, say: (words: string) => void, done: (words: string) => void, offer: () => void }}
 *   `done` says what came of it in place of the button; `offer` shows the button again
 */
export function confirmed({ verb, id, question: asked, yes: named, not, run }) {
  const said = h("p", { role: "status", hidden: true });
  const first = h("button", { type: "button", onclick: () => ask(true) }, `${verb} `, h("span", { class: "unseen" }, id));
  const yes = h("button", { type: "button", class: "primary", onclick: go }, named);
  const no = h("button", { type: "button", class: "quiet", onclick: () => ask(false) }, "Cancel");
  const question = h("div", { hidden: true }, h("p", null, asked), h("div", { class: "row" }, yes, no));

  /** @param {boolean} open */
  function ask(open) {
    said.hidden = true;
    question.hidden = !open;
    first.hidden = open;
    (open ? yes : first).focus();
  }

  async function go() {
    yes.disabled = true;
    try {
      done(await run());
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      // Without a response, the service may have done it, or may do it yet.
      say(error.status === 0 ? `${sentence(error.detail)} It may have been done all the same: look again before you repeat it.` : `${not}: ${sentence(error.detail)}`);
    } finally {
      yes.disabled = false;
    }
  }

  /** @param {string} words */
  function say(words) {
    said.hidden = !words;
    setText(said, words);
  }

  /** @param {string} words */
  function done(words) {
    first.hidden = question.hidden = true;
    say(words);
  }

  return {
    element: h("div", { class: "activation" }, first, question, said),
    say,
    done,
    offer() {
      first.hidden = !question.hidden;
    },
  };
}

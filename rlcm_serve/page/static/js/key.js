/** The API key: asked for when the service wants one, kept for this tab alone. */

import { byId, setText } from "./dom.js";

const NAME = "rlcm-key";
/** @type {string | null} where storage is forbidden */
let unstored = null;

/** @returns {string | null} */
function stored() {
  try {
    return sessionStorage.getItem(NAME);
  } catch {
    return unstored;
  }
}

/** @param {string} key */
function store(key) {
  unstored = key;
  try {
    sessionStorage.setItem(NAME, key);
  } catch {
    // Then it is kept until the page is left.
  }
}

/** @typedef {import("./api.js").Problem} Problem */

/**
 * @returns {{ get: () => string | null, ask: (problem: Problem | null) => Promise<boolean> }} `ask`
 *   opens the dialog, and says whether a key was given; asked twice at once, it is one dialog.
 */
export function createKeyring() {
  const dialog = /** @type {HTMLDialogElement} */ (byId("key-dialog"));
  const input = /** @type {HTMLInputElement} */ (byId("key-input"));
  /** @type {Promise<boolean> | null} */
  let asking = null;

  byId("key-cancel").addEventListener("click", () => dialog.close("cancel"));
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.close(input.value.trim() ? "given" : "cancel");
  });

  /** @param {Problem | null} problem */
  function open(problem) {
    const had = stored() !== null;
    const refused = problem !== null && had;
    setText(byId("key-title"), refused ? "This key was refused" : "This service needs an API key");
    setText(byId("key-reason"), refused ? problem.detail : "");
    input.value = "";
    dialog.returnValue = "cancel";
    dialog.showModal();
    return new Promise((/** @type {(given: boolean) => void} */ resolve) => {
      dialog.addEventListener(
        "close",
        () => {
          const given = dialog.returnValue === "given";
          if (given) store(input.value.trim());
          input.value = "";
          resolve(given);
        },
        { once: true },
      );
    });
  }

  return {
    get: stored,
    ask(problem) {
      asking ??= open(problem).finally(() => {
        asking = null;
      });
      return asking;
    },
  };
}

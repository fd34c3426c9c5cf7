/** The colours of the page by their role, for what is drawn rather than styled. */

/** @type {Map<string, string>} */
const known = new Map();
/** @type {Set<() => void>} */
const listeners = new Set();

const darkness = matchMedia("(prefers-color-scheme: dark)");
darkness.addEventListener("change", () => {
  known.clear();
  for (const listener of listeners) listener();
});

/**
 * The colour of a role of `base.css`, as it is now: "ink", "muted", "grid", "blue", ...
 *
 * @param {string} role
 * @returns {string}
 */
export function colour(role) {
  let found = known.get(role);
  if (found === undefined) {
    found = getComputedStyle(document.documentElement).getPropertyValue(`--${role}`).trim();
    known.set(role, found);
  }
  return found;
}

/**
 * Calls back whenever the page turns light or dark.
 *
 * @param {() => void} listener
 * @returns {() => void} ends it
 */
export function onThemeChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

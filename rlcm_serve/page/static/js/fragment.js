/**
 * What the address says after "#": which view, and with which settings.
 *
 * A fragment stays in the browser: no question in it reaches a server or a log.
 */

/** @typedef {"ask" | "trust" | "operate"} ViewName */

/** @type {ViewName[]} */
export const VIEWS = ["ask", "trust", "operate"];

/**
 * `#/trust?id=a&id=b` -> { view: "trust", params }. What is not a view of the page is the first one.
 *
 * @param {string} fragment with or without its "#"
 * @returns {{ view: ViewName, params: URLSearchParams }}
 */
export function parseFragment(fragment) {
  const [path, ...rest] = fragment.replace(/^#?\/?/, "").split("?");
  const view = VIEWS.find((name) => name === path) ?? "ask";
  return { view, params: new URLSearchParams(rest.join("?")) };
}

/**
 * The fragment of a view; what is undefined or null is left out, a list gives its name several times.
 *
 * @param {ViewName} view
 * @param {URLSearchParams | Record<string, string | number | null | undefined | (string | number)[]>} [params]
 * @returns {string} with its "#"
 */
export function writeFragment(view, params = {}) {
  let written = params instanceof URLSearchParams ? params : new URLSearchParams();
  if (!(params instanceof URLSearchParams)) {
    for (const [name, value] of Object.entries(params)) {
      if (value === null || value === undefined) continue;
      for (const one of Array.isArray(value) ? value : [value]) written.append(name, String(one));
    }
  }
  const query = written.toString();
  return query ? `#/${view}?${query}` : `#/${view}`;
}

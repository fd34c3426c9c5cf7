/** Tokens by kind: which of them were generated; the others were read or put in. */

const GENERATED = ["reasoning", "answer", "discarded", "cancelled"];

/**
 * @param {Record<string, number>} amounts by kind
 * @param {string} [ending] of the kinds' names there
 */
export function generatedOf(amounts, ending = "") {
  return GENERATED.reduce((sum, kind) => sum + (amounts[kind + ending] ?? 0), 0);
}

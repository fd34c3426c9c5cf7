import assert from "node:assert/strict";
import { after, test } from "node:test";

import { mathIn } from "../../rlcm_serve/page/static/js/math.js";

/** As much of an element as a formula needs. */
class Element {
  children = [];
  append(...children) {
    this.children.push(...children);
  }
  setAttribute() {}
  addEventListener() {}
}
const real = { document: globalThis.document, Node: globalThis.Node };
globalThis.Node = Element;
globalThis.document = { createElement: () => new Element(), head: new Element() };
after(() => Object.assign(globalThis, real));

/** What is taken for formulas, as it is written. @param {string} text */
const found = (text) => mathIn(text).filter((one) => one instanceof Element).map((one) => one.children.join(""));

test("formulas are found, and amounts of money and what is never closed are none", () => {
  assert.deepEqual(found("so \\(x\\) and \\[y =\n1\\] and $a=b$ and $$z$$"), ["\\(x\\)", "\\[y =\n1\\]", "$a=b$", "$$z$$"]);
  assert.deepEqual(found("it is \\boxed{14}."), ["\\boxed{14}"]);
  assert.deepEqual(found("$5 and $6, $ a=b$, $a=b $"), []);
  assert.deepEqual(found("\\[ never closed, \\[x\\] and \\(y\\)"), ["\\[x\\]", "\\(y\\)"]);
  assert.deepEqual(found(`\\[${"x".repeat(3000)}\\]`), []);
});

test("a long text is searched in a time that grows with its length alone", () => {
  for (const piece of ["\\[ a ", "\\( a ", "$=a", "$ $$", "\\boxed{", "\\[ \\( x"]) {
    const begun = performance.now();
    mathIn(piece.repeat(2 ** 17 / piece.length));
    mathIn(`${piece}${"=+".repeat(2 ** 16)}`);
    const took = performance.now() - begun;
    assert.ok(took < 500, `${piece} took ${Math.round(took)} ms`);
  }
});

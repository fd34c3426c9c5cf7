/** How the service verified the figures of a certificate, in a sentence. */

/** @type {Record<"traces" | "signature" | "none", string>} */
export const VERIFIED = {
  traces: "This service has computed its figures from recorded traces.",
  signature: "Its figures are vouched for by a signature that this service trusts.",
  none: "This service has not seen the traces behind its figures, and nobody it trusts has signed them.",
};

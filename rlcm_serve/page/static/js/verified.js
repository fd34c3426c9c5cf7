/** How the service verified the figures of a certificate, in a sentence. */

/** @type {Record<"traces" | "signature" | "none", string>} */
export const VERIFIED = {
  traces: "This service has computed its figures from recorded traces.",
  signature: "A signature that this service trusts vouches for its figures.",
  none: "This service could not check its figures: it does not have the recordings behind them, and nobody it trusts has signed them.",
};

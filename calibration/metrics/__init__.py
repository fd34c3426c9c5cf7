"""How well confidence predicts correctness (RLCM §4.1); estimates without intervals or guarantees.

`confidence` and `correct` hold one number per answer. `correct` is 0 or 1, or the share of several
answers that are right, unless a function says otherwise. Intervals of the same metrics are in
`calibration.metrics.bootstrap`.
"""

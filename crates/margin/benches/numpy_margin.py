"""The benchmark's margin in numpy, as an analyst would write it: arrays of scenarios x tickers.

python numpy_margin.py PRICES    PRICES: little-endian doubles, 1,000 tickers of 2,521 settlements
"""

import resource
import sys
import time

import numpy as np

N_TICKERS, N_SCENARIOS, N_DAYS, LOOKBACK, BURN_IN, DECAY, SIZE, SEED = 1000, 10_000, 10, 250, 20, 0.97, 10.0, 42


def calibrate(returns):
    """z of every return after the burn-in, and the volatility after the last; returns x tickers."""
    squares = returns**2
    weights = DECAY ** np.arange(LOOKBACK)
    variances = np.full((len(returns) + 1, returns.shape[1]), np.nan)
    for t in range(BURN_IN, len(returns) + 1):
        n = min(LOOKBACK, t)
        variances[t] = weights[:n] @ squares[t - n : t][::-1] / weights[:n].sum()
    return returns[BURN_IN:] / np.sqrt(variances[BURN_IN:-1]), np.sqrt(variances[-1])


def draws(n_dates):
    """Pool date of every scenario on every day: days x scenarios."""
    n_blocks = -(-N_SCENARIOS // n_dates)
    counter = np.arange(1, N_DAYS * n_blocks * n_dates + 1, dtype=np.uint64)
    z = np.uint64(SEED) + counter * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    keys = (z ^ (z >> np.uint64(31))).reshape(N_DAYS, n_blocks, n_dates)
    return np.argsort(keys, axis=-1, kind="stable").reshape(N_DAYS, -1)[:, :N_SCENARIOS]


def expected_shortfall(losses):
    in_tail = len(losses) * (1 - 0.99)
    worst = np.sort(losses)[::-1][: int(np.ceil(in_tail))]
    return (np.clip(in_tail - np.arange(len(worst)), 0, 1) / in_tail) @ worst


prices = np.fromfile(sys.argv[1], "<f8").reshape(N_TICKERS, -1).T
numbers = np.arange(N_TICKERS)
net = np.where(numbers % 3 == 0, -1.0, 1.0) * (1 + numbers % 7)

start = time.process_time()
z, sigma = calibrate(np.log(prices[1:] / prices[:-1]))
g = np.sqrt(DECAY + (1 - DECAY) * z**2)
calibrated = time.process_time()
paths = draws(len(z))
drawn = time.process_time()
x = np.zeros((N_SCENARIOS, N_TICKERS))
for dates in paths[::-1]:
    x *= g[dates]
    x += z[dates]
margin = expected_shortfall(-(np.expm1(sigma * x) @ (net * SIZE * prices[-1])))
end = time.process_time()

peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
parts = f"calibration {calibrated - start:.3f}, draws {drawn - calibrated:.3f}, paths {end - drawn:.3f}"
print(f"numpy   {end - start:.4f} s CPU ({parts}); {peak_mib:.1f} MiB; margin {margin}")

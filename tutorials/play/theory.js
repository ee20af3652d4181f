// The closed forms of decoding/theory.py, and what follows from them: the best gamma, and the least
// alpha that pays.

export function expected_tokens_per_round(alpha, gamma) {
  let total = 0;
  for (let i = 0; i <= gamma; i += 1) total += alpha ** i;
  return total;
}

export function expected_speedup(alpha, gamma, c, v) {
  return expected_tokens_per_round(alpha, gamma) / (gamma * c + v);
}

// The gamma from 0 to most with the largest speed-up; 0 where drafting does not pay.
export function best_gamma(alpha, c, v, most) {
  let best = 0;
  for (let gamma = 1; gamma <= most; gamma += 1) {
    if (expected_speedup(alpha, gamma, c, v) > speedup_or_one(alpha, best, c, v)) best = gamma;
  }
  return best;
}

// Without a draft a round is one plain step, whatever v is.
export function speedup_or_one(alpha, gamma, c, v) {
  return gamma === 0 ? 1 : expected_speedup(alpha, gamma, c, v);
}

// The least alpha from which this gamma pays; undefined where none is enough.
export function break_even(gamma, c, v) {
  if (expected_speedup(1, gamma, c, v) < 1) return undefined;
  let [low, high] = [0, 1];
  for (let i = 0; i < 50; i += 1) {
    const middle = (low + high) / 2;
    if (expected_speedup(middle, gamma, c, v) < 1) low = middle;
    else high = middle;
  }
  return high;
}

// The share of a thread's samples that a function may have if its share of the work is known.

/** The standard deviations by which a share may differ. One in two million differs more by chance. */
const DEVIATIONS = 5;
/** The percentage points for set-up code and for samples that belong to no part of the work. */
const REST = 1;

/**
 * Returns the percentage points by which a measured share may differ from `share`, a percentage, in
 * `samples` independent samples. The deviation is that of a binomial distribution.
 */
export function tolerance(share, samples) {
  const part = share / 100;
  return DEVIATIONS * Math.sqrt((part * (1 - part)) / samples) * 100 + REST;
}

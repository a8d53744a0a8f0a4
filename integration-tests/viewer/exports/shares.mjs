// The permitted difference between a function's share of a thread's samples and its known share of
// the work.

/**
 * The number of standard deviations by which a measured share may differ. By chance, one share in
 * two million differs by more.
 */
const DEVIATIONS = 5;
/** The percentage points added for set-up code and for samples in no part of the work. */
const REST = 1;

/**
 * Returns the percentage points by which a measured share may differ from `share`, a percentage, in
 * `samples` independent samples. The standard deviation is that of a binomial distribution.
 */
export function tolerance(share, samples) {
  const part = share / 100;
  return DEVIATIONS * Math.sqrt((part * (1 - part)) / samples) * 100 + REST;
}

/* The loop of work.rs, compiled without frame pointers and loaded while the program runs. */
unsigned long long two_tenths(unsigned long long x, unsigned long long steps) {
    while (steps-- > 0) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    return x;
}

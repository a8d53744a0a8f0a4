/* Measures the functions of profiler.h: one line per function, with its nanoseconds per call. */
#include <profiler.h>
#include <stdio.h>
#include <time.h>

#define CALLS 20000
#define ROUNDS 25

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

/* The least time of a round: the others were interrupted more often. */
#define MEASURE(name, call)                                                                         \
    do {                                                                                           \
        double least = 1e18;                                                                       \
        for (int round = 0; round < ROUNDS; round++) {                                             \
            double start = now_ns();                                                               \
            for (int i = 0; i < CALLS; i++) {                                                      \
                call;                                                                              \
            }                                                                                      \
            double took = (now_ns() - start) / CALLS;                                              \
            least = took < least ? took : least;                                                   \
        }                                                                                          \
        printf("%s %.2f\n", name, least);                                                          \
    } while (0)

int main(void) {
    const double numbers[2] = {1, 2};
    double start = now_ns();
    int is_recording = mpprof_is_recording();
    double waited = now_ns() - start;
    const mpprof_label *label = mpprof_label_new("label");
    const mpprof_counter *counter = mpprof_counter_new("counter", "");
    const mpprof_group *group = mpprof_group_new("plugin:group");
    volatile int is_on = 0;

    if (!is_recording) {
        MEASURE("off_ns", mpprof_marker("marker"));
        MEASURE("site_off_ns", MPPROF_MARKER("marker"));
        return 0;
    }
    printf("call_ms %.2f\n", waited / 1e6);
    MEASURE("is_recording_ns", is_on = mpprof_is_recording());
    MEASURE("marker_ns", mpprof_marker("marker"));
    MEASURE("site_ns", MPPROF_MARKER("marker"));
    MEASURE("site_text_ns", MPPROF_MARKER_TEXT("marker", "a text of 20 letters"));
    MEASURE("site_begin_and_end_ns", MPPROF_BEGIN("interval", NULL); MPPROF_END("interval"));
    MEASURE("marker_text_ns", mpprof_marker_text("marker", "a text of 20 letters"));
    MEASURE("marker_numbers_ns", mpprof_marker_numbers("marker", "text", numbers, 2));
    MEASURE("begin_and_end_ns", (mpprof_begin("interval", NULL), mpprof_end("interval")));
    MEASURE("interval_ns", mpprof_interval("interval", mpprof_now(), NULL));
    MEASURE("label_ns", mpprof_label_pop(MPPROF_LABEL_PUSH(label)));
    MEASURE("counter_ns", mpprof_counter_add(counter, 1));
    MEASURE("group_ns", mpprof_group_leave(mpprof_group_enter(group)));
    return is_on < 0;
}

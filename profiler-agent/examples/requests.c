/* An example of the profiler's interface for C: a program that answers requests.
 *
 *     profiler agent --install PREFIX
 *     export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig
 *     cc requests.c -o requests $(pkg-config --cflags --libs profiler-agent)
 *     LD_LIBRARY_PATH=PREFIX/lib profiler record -- ./requests
 *
 * The test integration-tests/tests/agent_c.rs compiles and runs it.
 */
#include <profiler.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUESTS 100

static volatile unsigned sink;

static void parse(const mpprof_label *label) {
    uint32_t open = MPPROF_LABEL_PUSH(label);
    for (unsigned step = 0; step < 10000; step++) {
        sink += step;
    }
    mpprof_label_pop(open);
}

static void answer(int number, const mpprof_label *label, const mpprof_counter *bytes) {
    char text[32];
    uint64_t start = mpprof_now();
    MPPROF_BEGIN("request", "GET /");
    parse(label);
    mpprof_counter_add(bytes, 100);
    MPPROF_END("request");
    if (mpprof_is_recording()) {
        double numbers[2] = {(double)number, number * 0.5};
        snprintf(text, sizeof text, "number %d", number);
        mpprof_marker_numbers("size", text, numbers, 2);
    }
    mpprof_interval("answer", start, "in one entry");
}

/* The argument is the number of requests. */
int main(int count, char **words) {
    int requests = count > 1 ? atoi(words[1]) : REQUESTS;
    const mpprof_label *label = mpprof_label_new("parse");
    const mpprof_counter *bytes = mpprof_counter_new("Bytes answered", "Bandwidth");
    const mpprof_group *tenant = mpprof_group_new("tenant:acme");
    const mpprof_group *disk = mpprof_group_new("disk");

    mpprof_thread_name("requests");
    mpprof_marker("begin");
    for (int number = 0; number < requests; number++) {
        mpprof_entered work = mpprof_group_enter(tenant);
        answer(number, label, bytes);
        mpprof_entered wait = mpprof_group_wait(disk);
        mpprof_group_leave(wait);
        mpprof_group_leave(work);
    }
    mpprof_marker_text("end", "all requests");
    mpprof_marker_stack("end with a stack", NULL);
    mpprof_counter_set(bytes, 0);
    printf("%s\n", mpprof_is_recording() ? "recording" : "not recording");
    return 0;
}

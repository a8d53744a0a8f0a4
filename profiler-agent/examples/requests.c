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

#define REQUESTS 100

static volatile unsigned sink;

static void parse(const profiler_label *label) {
    uint32_t open = PROFILER_LABEL_PUSH(label);
    for (unsigned step = 0; step < 10000; step++) {
        sink += step;
    }
    profiler_label_pop(open);
}

static void answer(int number, const profiler_label *label, const profiler_counter *bytes) {
    char text[32];
    uint64_t start = profiler_now();
    profiler_begin("request", "GET /");
    parse(label);
    profiler_counter_add(bytes, 100);
    profiler_end("request");
    if (profiler_is_recording()) {
        double numbers[2] = {(double)number, number * 0.5};
        snprintf(text, sizeof text, "number %d", number);
        profiler_marker_numbers("size", text, numbers, 2);
    }
    profiler_interval("answer", start, "in one entry");
}

int main(void) {
    const profiler_label *label = profiler_label_new("parse");
    const profiler_counter *bytes = profiler_counter_new("Bytes answered", "Bandwidth");
    const profiler_group *tenant = profiler_group_new("tenant:acme");
    const profiler_group *disk = profiler_group_new("disk");

    profiler_thread_name("requests");
    profiler_marker("begin");
    for (int number = 0; number < REQUESTS; number++) {
        profiler_entered work = profiler_group_enter(tenant);
        answer(number, label, bytes);
        profiler_entered wait = profiler_group_wait(disk);
        profiler_group_leave(wait);
        profiler_group_leave(work);
    }
    profiler_marker_text("end", "all requests");
    profiler_marker_stack("end with a stack", NULL);
    profiler_counter_set(bytes, 0);
    printf("%s\n", profiler_is_recording() ? "recording" : "not recording");
    return 0;
}

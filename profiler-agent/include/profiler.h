/* profiler.h - the multi-process profiler for C and C++.
 *
 * Link with the library (pkg-config --cflags --libs profiler-agent), or load
 * libprofiler_agent.so with dlopen and look the functions up. `profiler agent --install PREFIX`
 * installs the library, this file and the file for pkg-config.
 *
 * A process records if it runs below a session of the profiler, for example
 *     profiler record -- ./program
 * The first call of a function joins the session, and waits until the program is recorded: usually
 * 1 ms, at most 20 ms. If the session answers later, the program is recorded from then on. The
 * environment variable PROFILER_JOIN_WAIT_MS changes the 20 ms, up to 10,000. Without a session
 * every function returns at once: two loads and two comparisons, 1 to 5 ns. The functions that
 * make a label, a counter or a group then take a lock and allocate, once per name.
 *
 * For a marker with a constant name, the macros MPPROF_MARKER, MPPROF_BEGIN and similar ones are
 * cheaper than the functions: 10 to 25 ns, and at most 1 ns without a session.
 *
 * If nothing is recorded, set MULTIPROCESS_PROFILER_VERBOSE=1: the first call then prints the
 * reason to standard error. Otherwise nothing is ever printed.
 *
 * Rules for all functions:
 * - Any thread may call them, but a signal handler may not.
 * - Null pointers are allowed and mean "nothing".
 * - Texts are UTF-8 and end with a zero. Other bytes are replaced. Names are cut after 1,024 bytes,
 *   texts after 16 KiB. A name should be constant; variable parts belong in the text.
 * - Nothing is freed by the caller. Labels, counters and groups live as long as the process; up to
 *   4,096 of each can be made.
 * - No function fails. What cannot be recorded is counted, and the profile shows the number. A
 *   function that makes a label, a counter or a group may return null, which all functions accept.
 *
 * In a program that contains the profiler for Rust (profiler-child, profiler-parent), that
 * profiler records, and these functions do nothing. In a forked child of a process that records
 * they do nothing until the child calls mpprof_after_fork or executes another program; below
 * `profiler record` its samples are recorded.
 *
 * Costs are those of a processor with a cycle counter, while a session runs.
 */
#ifndef MULTIPROCESS_PROFILER_H
#define MULTIPROCESS_PROFILER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. Functions may be added without a new version. */
#define MPPROF_API_VERSION 1

/* The version of the loaded library. */
uint32_t mpprof_api_version(void);

/* Joins the session, as the first call of any function does. Returns 1 if this process records
 * then, otherwise 0. Cost of the first call: usually 1 ms, at most 20 ms. */
int mpprof_join(void);

/* Like mpprof_join, for the session with this address: the value of the environment variable
 * MULTIPROCESS_PROFILER_SESSION in the processes of the session. For a program that gets the
 * address in another way, or that has changed its environment. The function reads the environment
 * only if the address is null. If the library has joined another session before, nothing changes.
 * Cost: usually 1 ms, at most 2 s. */
int mpprof_join_session(const char *address);

/* Begins to record in a forked child of a process that records. Returns 1 if this process records
 * then, otherwise 0. Call it early in the child, before it starts a thread, enters a sandbox,
 * changes its user or closes its descriptors. If the process that forked it had several threads,
 * none of them may have been in setenv or dlopen at the fork. Cost: usually 1 ms, at most 20 ms. */
int mpprof_after_fork(void);

/* Stops recording in this process for good and ends the library's threads. What was recorded stays
 * in the profile. Call it before a system call that is allowed only in processes with one thread,
 * or before a change of the user with capabilities of the calling thread alone. Cost: usually less
 * than 1 ms. */
void mpprof_leave(void);

/* 1 if this process records now, otherwise 0. Use it before preparing an expensive text.
 * Cost: 1 to 5 ns. */
int mpprof_is_recording(void);

/* ---- Markers: named events of the calling thread ---- */

/* An instant. Cost: 20 to 60 ns. The first marker of a thread allocates. */
void mpprof_marker(const char *name);

/* An instant with a text. Cost: 30 to 90 ns, and 1 ns for each 16 bytes of the text. */
void mpprof_marker_text(const char *name, const char *text);

/* An instant with a text, which may be null, and `count` numbers, of which 64 are recorded.
 * Cost: about 100 ns. */
void mpprof_marker_numbers(const char *name, const char *text, const double *numbers,
                             size_t count);

/* An instant with a text and the stack of the calling thread. Cost: some microseconds. */
void mpprof_marker_stack(const char *name, const char *text);

/* The present instant, for mpprof_interval; 0 if no session runs. Only for the same process.
 * Cost: 10 ns. */
uint64_t mpprof_now(void);

/* An interval from `start` until now, with a text, which may be null. One entry: it is missing if
 * the process dies before the call. Nothing if `start` is 0. Cost: about 40 ns. */
void mpprof_interval(const char *name, uint64_t start, const char *text);

/* The start of an interval, with a text, which may be null. It is in the profile even if the
 * process dies before the end. Cost: about 40 ns. */
void mpprof_begin(const char *name, const char *text);

/* The end of the latest interval of this name that the calling thread has begun.
 * Cost: 20 to 60 ns. */
void mpprof_end(const char *name);

/* ---- Markers with constant names: one static per call site ----
 *
 * The macros record what the functions above record, and each is a statement:
 *     MPPROF_BEGIN("load", path);
 *     MPPROF_END("load");
 * The name is a string literal. The other arguments are evaluated only while a session runs. Any
 * threads may execute the same call site at the same time. The library keeps the names of up to
 * 4,096 call sites; others, and those of other compilers than GCC and Clang, cost as much as the
 * functions. Code with call sites may be unloaded. A program that loads the library with dlopen
 * declares an mpprof_site itself, with zeros behind the name, and passes it to the functions. */

/* A call site. Only the library changes it. */
typedef struct mpprof_site {
    const char *name;
    /* Null before the first use. Then the lowest bit of this word is 1 while a session runs. */
    const uint64_t *active;
    void *own;
} mpprof_site;

/* Joins the session at the first use of a call site. 1 if a session runs, otherwise 0. */
int mpprof_site_open(mpprof_site *site);

/* The functions behind the macros. The text may be null. */
void mpprof_site_marker(mpprof_site *site, const char *text);
void mpprof_site_interval(mpprof_site *site, uint64_t start, const char *text);
void mpprof_site_begin(mpprof_site *site, const char *text);
void mpprof_site_end(mpprof_site *site);
void mpprof_site_numbers(mpprof_site *site, const char *text, const double *numbers, size_t count);

#if defined(__GNUC__) || defined(__clang__)
/* 0 if nothing is to be recorded, otherwise 1. Cost: two loads, at most 1 ns. */
static __inline__ int mpprof_site_is_on(mpprof_site *site) {
    const uint64_t *active = __atomic_load_n(&site->active, __ATOMIC_ACQUIRE);
    if (__builtin_expect(active == NULL, 0)) {
        return mpprof_site_open(site);
    }
    return (__atomic_load_n(active, __ATOMIC_RELAXED) & 1) != 0;
}

#define MPPROF_AT_SITE(constant_name, call)                                                        \
    do {                                                                                           \
        static mpprof_site mpprof_this_site = {"" constant_name, NULL, NULL};                      \
        if (mpprof_site_is_on(&mpprof_this_site)) {                                                \
            call;                                                                                  \
        }                                                                                          \
    } while (0)

/* An instant. Cost: 10 to 25 ns. */
#define MPPROF_MARKER(name) MPPROF_AT_SITE(name, mpprof_site_marker(&mpprof_this_site, NULL))
/* An instant with a text. Cost: 20 to 60 ns, and 1 ns for each 16 bytes of the text. */
#define MPPROF_MARKER_TEXT(name, text)                                                             \
    MPPROF_AT_SITE(name, mpprof_site_marker(&mpprof_this_site, (text)))
/* An instant with a text, which may be null, and `count` numbers, of which 64 are recorded. */
#define MPPROF_MARKER_NUMBERS(name, text, numbers, count)                                          \
    MPPROF_AT_SITE(name, mpprof_site_numbers(&mpprof_this_site, (text), (numbers), (count)))
/* An interval from `start`, a result of mpprof_now, until now, with a text, which may be null. */
#define MPPROF_INTERVAL(name, start, text)                                                         \
    MPPROF_AT_SITE(name, mpprof_site_interval(&mpprof_this_site, (start), (text)))
/* The start of an interval, with a text, which may be null. Cost: as an instant. */
#define MPPROF_BEGIN(name, text)                                                                   \
    MPPROF_AT_SITE(name, mpprof_site_begin(&mpprof_this_site, (text)))
/* The end of the latest interval of this name that the calling thread has begun, with the macro or
 * the function. Cost: 10 to 25 ns. */
#define MPPROF_END(name) MPPROF_AT_SITE(name, mpprof_site_end(&mpprof_this_site))
#else
#define MPPROF_MARKER(name) mpprof_marker("" name)
#define MPPROF_MARKER_TEXT(name, text) mpprof_marker_text("" name, (text))
#define MPPROF_MARKER_NUMBERS(name, text, numbers, count)                                          \
    mpprof_marker_numbers("" name, (text), (numbers), (count))
#define MPPROF_INTERVAL(name, start, text) mpprof_interval("" name, (start), (text))
#define MPPROF_BEGIN(name, text) mpprof_begin("" name, (text))
#define MPPROF_END(name) mpprof_end("" name)
#endif

/* ---- Labels: names on the stack, which samples of the thread show ---- */

typedef struct mpprof_label mpprof_label;

/* The label of this name. Keep the pointer: the call takes a lock. */
const mpprof_label *mpprof_label_new(const char *name);

/* Opens a label. `frame` is the address of a local variable of the calling function; the macro
 * MPPROF_LABEL_PUSH supplies it. Returns a number for mpprof_label_pop. Cost: 2 to 7 ns. */
uint32_t mpprof_label_push(const mpprof_label *label, const void *frame);

/* Closes a label and all labels that the thread has opened after it. Call it on the thread, and in
 * the function, that has opened the label. Cost: 1 to 6 ns. */
void mpprof_label_pop(uint32_t label);

#if defined(__GNUC__) || defined(__clang__)
#define MPPROF_LABEL_PUSH(label) mpprof_label_push((label), __builtin_frame_address(0))
#endif

/* ---- Counters: numbers that the profile shows as graphs ---- */

typedef struct mpprof_counter mpprof_counter;

/* The counter of this name. The category "Memory" is drawn as accumulated bytes, "Bandwidth" as
 * bytes per second, any other one as a rate; the first call decides. Keep the pointer. */
const mpprof_counter *mpprof_counter_new(const char *name, const char *category);

/* Adds to a counter, or sets it. Cost: about 10 ns. */
void mpprof_counter_add(const mpprof_counter *counter, int64_t delta);
void mpprof_counter_set(const mpprof_counter *counter, int64_t value);

/* ---- Groups: how much time the process spends for a plugin, a tenant, a part ---- */

typedef struct mpprof_group mpprof_group;

/* What mpprof_group_leave needs to know. All zeros: nothing was entered. */
typedef struct mpprof_entered {
    uint64_t words[2];
} mpprof_entered;

/* The group of this name, such as "plugin:spell checker" or "tenant:acme". The part before the
 * colon is its kind; without a known kind it is a component. Keep the pointer. */
const mpprof_group *mpprof_group_new(const char *name);

/* The calling thread works for this group until it calls mpprof_group_leave. Cost: 30 to 50 ns
 * if times are measured (profiler record --groups, or the live page), otherwise about 10 ns. */
mpprof_entered mpprof_group_enter(const mpprof_group *group);

/* The calling thread waits for this group until it calls mpprof_group_leave: the time is
 * blocking time of all groups that it has entered. Cost: as mpprof_group_enter. */
mpprof_entered mpprof_group_wait(const mpprof_group *group);

/* Ends what mpprof_group_enter or mpprof_group_wait has begun, on the same thread. */
void mpprof_group_leave(mpprof_entered entered);

/* ---- Threads ---- */

/* Names the calling thread in the profile. */
void mpprof_thread_name(const char *name);

#ifdef __cplusplus
}
#endif

#endif

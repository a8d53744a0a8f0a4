/* profiler.h - the multi-process profiler for C and C++.
 *
 * Link with the library (pkg-config --cflags --libs profiler-agent), or load
 * libprofiler_agent.so with dlopen and look the functions up. `profiler agent --install PREFIX`
 * installs the library, this file and the file for pkg-config.
 *
 * A process records if it runs below a session of the profiler, for example
 *     profiler record -- ./program
 * The library joins the session when it is loaded with the program; no call is needed. A program
 * that calls no function is recorded some milliseconds after its start. The first function that is
 * called before waits until the program is recorded: usually 1 ms, at most 20 ms. Without a session
 * every function returns at once: two loads and two comparisons, about 1 ns. The functions that
 * make a label, a counter or a group then take a lock and allocate, once per name.
 *
 * Rules for all functions:
 * - Any thread may call them, but a signal handler may not.
 * - Null pointers are allowed and mean "nothing".
 * - Texts are UTF-8 and end with a zero. Other bytes are replaced. Names are cut after 1,024
 *   bytes, texts after 16 KiB. A name should be constant; variable parts belong into the text.
 * - Nothing is freed by the caller. Labels, counters and groups live as long as the process; up to
 *   4,096 of each can be made.
 * - errno stays. profiler_join reads the environment, which no other thread may change meanwhile.
 * - No function fails. What cannot be recorded is counted, and the profile shows the number.
 *
 * In a program that contains the profiler for Rust (profiler-child, profiler-parent), that
 * profiler records, and these functions do nothing. In a forked child they do nothing until it
 * executes another program; its samples are recorded.
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

/* The version of this interface. While it stays, functions are only added. */
#define PROFILER_API_VERSION 1

/* The version of the loaded library. */
uint32_t profiler_api_version(void);

/* Joins the session, if the library has not done so: needed only after dlopen. Returns 1 if this
 * process records then, otherwise 0. Cost: usually 1 ms, at most 20 ms; without a session 1 us.
 * Later calls do nothing. */
int profiler_join(void);

/* Like profiler_join, for the session with this address: the value of the environment variable
 * MULTIPROCESS_PROFILER_SESSION in the processes of the session. For a program that was told the
 * address in another way, or has changed its environment, which the function does not read. Null:
 * the environment is read. Cost: usually 1 ms, at most 2 s. */
int profiler_join_session(const char *address);

/* 1 if this process records now, otherwise 0. Use it before preparing an expensive text.
 * Cost: 1 ns. */
int profiler_is_recording(void);

/* ---- Markers: named events of the calling thread ---- */

/* An instant. Cost: about 30 ns. The first marker of a thread allocates. */
void profiler_marker(const char *name);

/* An instant with a text. Cost: about 40 ns, and 1 ns for each 16 bytes of the text. */
void profiler_marker_text(const char *name, const char *text);

/* An instant with a text, which may be null, and `count` numbers, of which 64 are recorded.
 * Cost: about 100 ns. */
void profiler_marker_numbers(const char *name, const char *text, const double *numbers,
                             size_t count);

/* An instant with a text and the stack of the calling thread. Cost: some microseconds. */
void profiler_marker_stack(const char *name, const char *text);

/* The present instant, for profiler_interval; 0 if no session runs. Only for the same process.
 * Cost: 10 ns. */
uint64_t profiler_now(void);

/* An interval from `start` until now, with a text, which may be null. One entry: it is missing if
 * the process dies before the call. Nothing if `start` is 0. Cost: about 40 ns. */
void profiler_interval(const char *name, uint64_t start, const char *text);

/* The start of an interval, with a text, which may be null. It is in the profile even if the
 * process dies before the end. Cost: about 40 ns. */
void profiler_begin(const char *name, const char *text);

/* The end of the latest interval of this name that the calling thread has begun.
 * Cost: about 30 ns. */
void profiler_end(const char *name);

/* ---- Labels: names on the stack, which samples of the thread show ---- */

typedef struct profiler_label profiler_label;

/* The label of this name. Keep the pointer: the call takes a lock. */
const profiler_label *profiler_label_new(const char *name);

/* Opens a label. `frame` is the address of a local variable of the calling function; the macro
 * PROFILER_LABEL_PUSH supplies it. Returns a number for profiler_label_pop. Cost: 2 ns. */
uint32_t profiler_label_push(const profiler_label *label, const void *frame);

/* Closes a label and all labels that the thread has opened after it. Call it on the thread, and in
 * the function, that has opened the label. Cost: 1 ns. */
void profiler_label_pop(uint32_t label);

#if defined(__GNUC__) || defined(__clang__)
#define PROFILER_LABEL_PUSH(label) profiler_label_push((label), __builtin_frame_address(0))
#endif

/* ---- Counters: numbers that the profile shows as graphs ---- */

typedef struct profiler_counter profiler_counter;

/* The counter of this name. The category "Memory" is drawn as accumulated bytes, "Bandwidth" as
 * bytes per second, any other one as a rate; the first call decides. Keep the pointer. */
const profiler_counter *profiler_counter_new(const char *name, const char *category);

/* Adds to a counter, or sets it. Cost: about 10 ns. */
void profiler_counter_add(const profiler_counter *counter, int64_t delta);
void profiler_counter_set(const profiler_counter *counter, int64_t value);

/* ---- Groups: how much time the process spends for a plugin, a tenant, a part ---- */

typedef struct profiler_group profiler_group;

/* What profiler_group_leave needs to know. All zeros: nothing was entered. */
typedef struct profiler_entered {
    uint64_t words[2];
} profiler_entered;

/* The group of this name, such as "plugin:spell checker" or "tenant:acme". The part before the
 * colon is its kind; without a known kind it is a component. Keep the pointer. */
const profiler_group *profiler_group_new(const char *name);

/* The calling thread works for this group until it calls profiler_group_leave. Cost: about 30 ns
 * if times are measured (profiler record --groups, or the live page), otherwise about 10 ns. */
profiler_entered profiler_group_enter(const profiler_group *group);

/* The calling thread waits for this group until it calls profiler_group_leave: the time is
 * blocking time of all groups that it has entered. Cost: as profiler_group_enter. */
profiler_entered profiler_group_wait(const profiler_group *group);

/* Ends what profiler_group_enter or profiler_group_wait has begun, on the same thread. */
void profiler_group_leave(profiler_entered entered);

/* ---- Threads ---- */

/* Names the calling thread in the profile. */
void profiler_thread_name(const char *name);

#ifdef __cplusplus
}
#endif

#endif

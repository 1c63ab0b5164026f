/* The table of processes: running ones, and ended ones until they are forgotten. */
#include <stdlib.h>
#include <unistd.h>

#include "supervisor.h"

struct process *processes; /* oldest first */

struct process *process_find(uint32_t id) {
    for (struct process *one = processes; one; one = one->next)
        if (one->id == id && !one->forgotten)
            return one;
    return NULL;
}

struct process *process_of_pid(pid_t pid) {
    for (struct process *one = processes; one; one = one->next)
        if (one->pid == pid && one->state == RUNNING)
            return one;
    return NULL;
}

static bool holds_something(const struct process *process) {
    return process->state != ENDED || process->out >= 0 || process->err >= 0;
}

unsigned process_count(void) {
    unsigned count = 0;
    for (struct process *one = processes; one; one = one->next)
        count += holds_something(one) || followers_of(one);
    return count;
}

struct process *process_add(uint32_t id) {
    struct process *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    *made = (struct process){.id = id, .out = -1, .err = -1, .in = -1};
    struct process **at = &processes;
    while (*at)
        at = &(*at)->next;
    return *at = made;
}

/* Its pipes stay open as long as something writes to them: a daemon must not die because its starter was forgotten. */
void process_forget(struct process *process) {
    process->forgotten = true;
    followers_gone(process);
    stdin_close(process);
    ring_free(&process->ring);
    body_free(&process->shown);
}

static void process_free(struct process **at) {
    struct process *gone = *at;
    *at = gone->next;
    followers_gone(gone);
    followers_sweep();
    stdin_close(gone);
    ring_free(&gone->ring);
    body_free(&gone->shown);
    free(gone);
}

void process_sweep(void) {
    unsigned ended = 0;
    for (struct process *one = processes; one; one = one->next)
        ended += one->state == ENDED && !one->forgotten;
    for (struct process *one = processes; one && ended > ENDED_KEPT; one = one->next)
        if (one->state == ENDED && !one->forgotten && !followers_of(one)) { /* somebody is still being told its end */
            process_forget(one);
            ended--;
        }
    for (struct process **at = &processes; *at;)
        if ((*at)->forgotten && !holds_something(*at))
            process_free(at);
        else
            at = &(*at)->next;
}

void put_ending(struct body *body, const struct process *process) {
    if (process->signo)
        put_u64(body, T_SIGNO, (uint64_t)process->signo);
    else
        put_u64(body, T_STATUS, (uint64_t)process->status);
    put_u64(body, T_TIMED_OUT, process->timed_out);
}

static void list_one(const struct process *process) {
    struct body body = {0};
    put_bytes(&body, process->shown.data, process->shown.length);
    put_u64(&body, T_UID, process->uid);
    put_u64(&body, T_PID, (uint64_t)process->pid);
    put_u64(&body, T_STATE, process->state == ENDED);
    if (process->state == ENDED) {
        put_ending(&body, process);
        put_u64(&body, T_ENDED_MS, (uint64_t)process->ended_ms);
        put_u64(&body, T_DURATION_MS, (uint64_t)(process->ended_mono - process->started_mono));
    }
    put_u64(&body, T_STARTED_MS, (uint64_t)process->started_ms);
    put_u64(&body, T_TOTAL, process->ring.total);
    put_u64(&body, T_FIRST, process->ring.first);
    put_u64(&body, T_PTY, process->pty);
    put_u64(&body, T_SESSION, process->session);
    put_u64(&body, T_STDIN_OPEN, process->in >= 0 && !process->in_eof);
    put_u64(&body, T_STDIN_TOTAL, process->in_total + process->in_length);
    put_u64(&body, T_TIMEOUT_MS, process->timeout_ms);
    out_message(M_PROCESS, process->id, &body);
    body_free(&body);
}

void process_list(void) {
    for (struct process *one = processes; one; one = one->next)
        if (!one->forgotten)
            list_one(one);
    out_message(M_PROCESS, 0, NULL);
}

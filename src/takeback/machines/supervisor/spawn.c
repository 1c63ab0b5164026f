/* Starting a process: reading SPAWN, its pipes or terminal, and what its child does before exec. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

struct rlimit files_limit;

static void failed(uint32_t id, int error, const char *stage, const char *path) {
    struct body body = {0};
    put_u64(&body, T_ERRNO, (uint64_t)error);
    put_text(&body, T_STAGE, stage);
    put_text(&body, T_PATH, path);
    out_message(M_FAILED, id, &body);
    body_free(&body);
}

static void close_all(int *fds, int count) {
    for (int at = 0; at < count; at++)
        if (fds[at] >= 0)
            close(fds[at]);
}

/* ours: in, out, err; its: the same three as the child has them. */
static int open_pipes(const struct launch *launch, int ours[3], int its[3]) {
    for (int at = 0; at < 3; at++) {
        int ends[2];
        if (at == 0 && !launch->with_stdin) {
            its[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
            if (its[0] < 0)
                return errno;
            continue;
        }
        if (pipe2(ends, O_CLOEXEC) < 0)
            return errno;
        ours[at] = ends[at == 0];
        its[at] = ends[at != 0];
        fcntl(ours[at], F_SETFL, O_NONBLOCK); /* a new pipe has no other flags */
    }
    return 0;
}

static int open_terminal(struct launch *launch, int ours[3]) {
    ours[1] = pty_open(launch->cols, launch->rows, launch->uid, launch->terminal, sizeof launch->terminal);
    if (ours[1] < 0)
        return errno;
    ours[0] = fcntl(ours[1], F_DUPFD_CLOEXEC, 3);
    return ours[0] < 0 ? errno : 0;
}

static struct process *enter(uint32_t id, const struct launch *launch, const int ours[3], pid_t pid) {
    struct process *process = process_add(id);
    if (!process)
        return NULL;
    process->pid = pid;
    process->in = ours[0];
    process->out = ours[1];
    process->err = ours[2];
    process->uid = launch->uid;
    process->timeout_ms = launch->timeout_ms;
    process->session = launch->session;
    process->pty = launch->pty;
    process->started_ms = wall_ms();
    process->started_mono = monotonic_ms();
    if (launch->timeout_ms)
        process->deadline = awake_ms() + (int64_t)launch->timeout_ms;
    launch_show(launch, &process->shown);
    return process;
}

static void start(uint32_t id, struct launch *launch) {
    int ours[3] = {-1, -1, -1};
    int error;
    if (process_count() >= PROCESSES_MAX) {
        failed(id, EAGAIN, "limit", "");
        return;
    }
    error = launch->pty ? open_terminal(launch, ours) : open_pipes(launch, ours, launch->fds);
    if (error) {
        failed(id, error, launch->pty ? "pty" : "fork", "");
        close_all(ours, 3);
        close_all(launch->fds, 3);
        return;
    }
    pid_t pid = launch_run(launch);
    error = launch->error;
    close_all(launch->fds, 3);
    if (pid < 0 || error) {
        close_all(ours, 3);
        failed(id, error, launch->stage, launch->culprit);
        return;
    }
    struct process *process = enter(id, launch, ours, pid);
    if (!process) {
        kill(-pid, SIGKILL);
        close_all(ours, 3);
        failed(id, ENOMEM, "fork", "");
        return;
    }
    struct body body = {0};
    put_u64(&body, T_PID, (uint64_t)pid);
    out_message(M_STARTED, id, &body);
    body_free(&body);
    if (launch->follower)
        follow(launch->follower, process, 0, launch->credit);
}

void spawn(uint32_t id, const uint8_t *body, size_t length) {
    struct launch launch;
    if (id == 0 || process_find(id)) {
        out_error(id, EEXIST, "a process with this id exists");
        return;
    }
    int error = launch_read(&launch, body, length);
    if (error)
        out_error(id, error, "SPAWN cannot be read");
    else
        start(id, &launch);
    launch_free(&launch);
}

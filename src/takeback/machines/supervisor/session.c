/* How processes end: by themselves, at their time limit, with their session, and all of them at SHUTDOWN. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor.h"

enum { SCAN_PAUSE_MAX_MS = 32, GIVE_UP_MS = 2000, KILL_AGAIN_MS = 100, PTY_LOOK_MS = 5 };

static int64_t shutdown_kill_at, shutdown_exit_at;

static bool has_children(void) {
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

static bool is_zombie(pid_t pid) {
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0)
        return true;
    text[got] = 0;
    char *after = strrchr(text, ')');
    return after && after[1] == ' ' && (after[2] == 'Z' || after[2] == 'X');
}

/* Send to all of a session that have not ended; returns how many were found. */
static unsigned signal_session(pid_t session, int signo) {
    unsigned found = 0;
    kill(-session, signo);
    DIR *proc = opendir("/proc");
    if (!proc)
        return 0;
    struct dirent *entry;
    while ((entry = readdir(proc))) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        pid_t pid = (pid_t)atoi(entry->d_name);
        if (getsid(pid) != session || is_zombie(pid))
            continue;
        found++;
        if (getpgid(pid) != session) /* the others have it already */
            kill(pid, signo);
    }
    closedir(proc);
    return found;
}

void session_kill(const struct process *process, int signo) {
    signal_session(process->pid, signo);
}

static bool ends_session(const struct process *process) {
    return process->session || process->timed_out;
}

static void main_ended(struct process *process, const siginfo_t *info) {
    if (info->si_code == CLD_EXITED)
        process->status = info->si_status;
    else
        process->signo = info->si_status;
    process->state = ENDING;
    process->deadline = 0;
    process->ended_ms = wall_ms();
    process->ended_mono = monotonic_ms();
    process->ending_since = awake_ms();
    process->scan_pause = 1;
    stdin_close(process);
}

void processes_reap(void) {
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
            return;
        struct process *process = process_of_pid(info.si_pid);
        /* Before it is reaped: as long as it is a zombie its number cannot be another session's. */
        if (process && ends_session(process))
            kill(-process->pid, SIGKILL);
        waitpid(info.si_pid, NULL, 0);
        if (process)
            main_ended(process, &info);
        else
            identity_hook_ended(info.si_pid);
    }
}

static void step_ending(struct process *process, int64_t now) {
    if (ends_session(process) && !process->draining) {
        if (now < process->scan_at)
            return;
        /* Without any child of ours nothing can be left: orphans become ours. */
        if (has_children() && signal_session(process->pid, SIGKILL) > 0 && now - process->ending_since < GIVE_UP_MS) {
            process->scan_at = now + process->scan_pause;
            if (process->scan_pause < SCAN_PAUSE_MAX_MS)
                process->scan_pause *= 2;
            return;
        }
    }
    if (!process_drained(process)) {
        process->scan_at = process->pty ? now + PTY_LOOK_MS : 0;
        return;
    }
    struct body body = {0};
    process->state = ENDED;
    followers_ended(process);
    put_ending(&body, process);
    put_u64(&body, T_DURATION_MS, (uint64_t)(process->ended_mono - process->started_mono));
    put_u64(&body, T_TOTAL, process->ring.total);
    out_message(M_ENDED, process->id, &body);
    body_free(&body);
}

void processes_step(void) {
    int64_t now = awake_ms();
    for (struct process *one = processes; one; one = one->next) {
        if (one->state == RUNNING && one->deadline && now >= one->deadline) {
            one->timed_out = true;
            one->deadline = now + KILL_AGAIN_MS; /* again, for what was being born meanwhile */
            session_kill(one, SIGKILL);
        }
        if (one->state == ENDING)
            step_ending(one, now);
    }
}

int64_t processes_wake_at(void) {
    int64_t next = 0;
    for (struct process *one = processes; one; one = one->next) {
        int64_t due = one->state == RUNNING ? one->deadline : one->state == ENDING ? one->scan_at : 0;
        if (due && (!next || due < next))
            next = due;
    }
    return next;
}

/* Children that belong to no session of ours: daemons that came to us when their parents ended. */
static void signal_children(int signo) {
    char path[64], text[16384];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    text[got > 0 ? got : 0] = 0;
    for (char *at = text, *rest; *at; at = rest) {
        pid_t pid = (pid_t)strtol(at, &rest, 10);
        if (rest == at)
            break;
        if (pid > 0)
            kill(pid, signo);
    }
}

static void signal_all(int signo) {
    if (getpid() == 1) {
        kill(-1, signo);
        return;
    }
    for (struct process *one = processes; one; one = one->next)
        if (one->state != ENDED)
            session_kill(one, signo);
    signal_children(signo);
}

void shutdown_begin(uint64_t grace_ms) {
    if (grace_ms > 3600 * 1000)
        grace_ms = 3600 * 1000;
    shutdown_kill_at = awake_ms() + (int64_t)grace_ms;
    shutdown_exit_at = shutdown_kill_at + GIVE_UP_MS;
    signal_all(SIGTERM);
}

bool shutdown_running(void) {
    return shutdown_exit_at != 0;
}

void shutdown_step(void) {
    if (!shutdown_exit_at)
        return;
    if (!has_children() || awake_ms() >= shutdown_exit_at) {
        out_pump(true);
        _exit(0);
    }
    if (awake_ms() >= shutdown_kill_at) {
        signal_all(SIGKILL);
    }
}

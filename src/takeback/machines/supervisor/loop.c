/* The supervisor: PID 1 of a sandbox. One thread, one poll, everything of the channel; see docs/formats/channel.md. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "relay.h"

enum { TICK_MS = 500, SLEPT_MS = 1000, TERM_GRACE_MS = 2000, FDS_MAX = 3 + 3 * PROCESSES_MAX + CONNECTIONS_MAX };
enum kind { FROM_HOST, TO_HOST, OUT, ERR, IN, LISTENER, CONNECTION };

struct watched {
    void *what; /* a process or a connection */
    enum kind kind;
};

static struct pollfd fds[FDS_MAX];
static struct watched watched[FDS_MAX];
static nfds_t count;
static volatile sig_atomic_t child_ended, asked_to_end;
static int64_t awake, last_monotonic;
int64_t started_at;

static int64_t clock_ms(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t monotonic_ms(void) {
    return clock_ms(CLOCK_MONOTONIC);
}

int64_t wall_ms(void) {
    return clock_ms(CLOCK_REALTIME);
}

int64_t awake_ms(void) {
    return awake;
}

/* While a limit runs the loop turns every TICK_MS, so a longer step means that the machine stood still: in a restored
 * copy the monotonic clock jumps by all the time it lay on a disk, and every time limit would be over at once. */
static void tick(void) {
    int64_t now = monotonic_ms(), step = now - last_monotonic;
    last_monotonic = now;
    awake += step < 0 ? 0 : step < SLEPT_MS ? step : SLEPT_MS;
}

static void on_signal(int signo) {
    if (signo == SIGCHLD)
        child_ended = 1;
    else
        asked_to_end = 1;
}

static void watch(int fd, short events, void *what, enum kind kind) {
    if (count == FDS_MAX)
        return;
    fds[count] = (struct pollfd){.fd = fd, .events = events};
    watched[count++] = (struct watched){what, kind};
}

static void watch_processes(void) {
    for (struct process *one = processes; one; one = one->next) {
        if ((one->out >= 0 || one->err >= 0) && process_readable(one)) {
            if (one->out >= 0)
                watch(one->out, POLLIN, one, OUT);
            if (one->err >= 0)
                watch(one->err, POLLIN, one, ERR);
        }
        if (one->in >= 0 && one->in_length > 0)
            watch(one->in, POLLOUT, one, IN);
    }
}

static void watch_connections(void) {
    if (relay_listener >= 0 && !out_crowded())
        watch(relay_listener, POLLIN, NULL, LISTENER);
    for (struct connection *one = connections; one; one = one->next)
        if (relay_wants(one))
            watch(one->fd, relay_wants(one), one, CONNECTION);
}

static void sooner(int64_t *wait, int64_t left) {
    if (left < 0)
        left = 0;
    if (*wait < 0 || left < *wait)
        *wait = left;
}

static int64_t wait_ms(void) {
    int64_t wait = -1, now = monotonic_ms(), due = processes_wake_at();
    if (due) {
        sooner(&wait, TICK_MS);
        sooner(&wait, due - awake);
    }
    if (followers_any_late() || identity_waiting())
        sooner(&wait, TICK_MS / 10);
    if (shutdown_running())
        sooner(&wait, 5);
    if (in_stalled() && !out_crowded())
        sooner(&wait, 0);
    if (out_retry_at())
        sooner(&wait, out_retry_at() - now);
    if (in_retry_at())
        sooner(&wait, in_retry_at() - now);
    return wait;
}

static void serve(nfds_t at) {
    struct process *process = watched[at].what;
    switch (watched[at].kind) {
    case FROM_HOST: in_ready(); break;
    case OUT: process_read(process, false); break;
    case ERR: process_read(process, true); break;
    case IN: stdin_flush(process); break;
    case LISTENER: relay_accept(); break;
    case CONNECTION: relay_ready(watched[at].what, fds[at].revents); break;
    case TO_HOST: break;
    }
}

static void turn(const sigset_t *while_waiting) {
    count = 0;
    if (in_wants() && (!in_retry_at() || in_retry_at() <= monotonic_ms()))
        watch(STDIN_FILENO, POLLIN, NULL, FROM_HOST);
    if (out_wants_poll())
        watch(STDOUT_FILENO, POLLOUT, NULL, TO_HOST);
    watch_processes();
    watch_connections();
    int64_t wait = wait_ms();
    struct timespec limit = {wait / 1000, wait % 1000 * 1000000};
    int ready = ppoll(fds, count, wait < 0 ? NULL : &limit, while_waiting);
    bool host_ready = false;
    tick();
    /* The host last: its FORGET may free what the others are about. */
    for (nfds_t at = count; ready > 0 && at-- > 0;)
        if (fds[at].revents && watched[at].kind == TO_HOST)
            host_ready = true;
        else if (fds[at].revents)
            serve(at);
    if (child_ended) {
        child_ended = 0;
        processes_reap();
    }
    if (asked_to_end) {
        asked_to_end = 0;
        shutdown_begin(TERM_GRACE_MS);
    }
    processes_step();
    identity_step();
    shutdown_step();
    in_parse();
    out_pump(host_ready);
    followers_sweep();
    relay_sweep();
    process_sweep();
}

static void prepare(void) {
    struct sigaction usual = {.sa_handler = SIG_DFL}, ours = {.sa_handler = on_signal}, none = {.sa_handler = SIG_IGN};
    for (int signo = 1; signo < NSIG; signo++)
        sigaction(signo, &usual, NULL); /* whoever started us may have ignored some, and the children would inherit it */
    sigaction(SIGCHLD, &ours, NULL);
    sigaction(SIGTERM, &ours, NULL);
    sigaction(SIGPIPE, &none, NULL);
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", O_RDWR);
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    for (int fd = 0; fd <= 1; fd++)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    struct rlimit more;
    getrlimit(RLIMIT_NOFILE, &files_limit);
    more = files_limit;
    more.rlim_cur = more.rlim_max;
    setrlimit(RLIMIT_NOFILE, &more);
    if (getpid() != 1)
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    umask(022);
    (void)!chdir("/");
}

int main(int argc, char **argv) {
    sigset_t blocked, while_waiting;
    if (argc >= 2 && strcmp(argv[1], "file") == 0)
        return files_main(argc - 2, argv + 2);
    if (argc >= 2) {
        fprintf(stderr, "takeback's supervisor: without arguments it speaks docs/formats/channel.md on 0 and 1\n");
        return 2;
    }
    started_at = last_monotonic = monotonic_ms();
    awake = 1;
    prepare();
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    sigemptyset(&while_waiting);
    for (;;)
        turn(&while_waiting);
}

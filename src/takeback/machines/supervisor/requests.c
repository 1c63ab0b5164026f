/* What each message of the host does. */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "relay.h"

static void attach(const uint8_t *body, size_t length) {
    if (length != NONCE) {
        out_error(0, EPROTO, "ATTACH has a nonce of 16 bytes");
        return;
    }
    /* What was to be told to the host before is of no use to this one: LIST tells it all. */
    out_forget_all();
    unfollow_all();
    relay_reset_all();
    out_quiet(false);
    stdin_tell_all();
    struct body answer = {0};
    put_bytes(&answer, body, NONCE);
    put_u64(&answer, T_VERSION, PROTOCOL_VERSION);
    put_u64(&answer, T_GENERATION, generation);
    put_u64(&answer, T_UPTIME_MS, (uint64_t)(monotonic_ms() - started_at));
    out_urgent(M_ATTACHED, 0, &answer);
    body_free(&answer);
}

static void pong(uint32_t id) {
    struct timespec wall, monotonic;
    struct body answer = {0};
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    put_u64(&answer, T_WALL_NS, (uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec);
    put_u64(&answer, T_MONOTONIC_NS, (uint64_t)monotonic.tv_sec * 1000000000 + (uint64_t)monotonic.tv_nsec);
    out_urgent(M_PONG, id, &answer);
    body_free(&answer);
}

static void send_signal(struct process *process, const uint8_t *body, size_t length) {
    uint64_t signo, everything;
    if (!find_u64(body, length, T_SIGNO, 0, &signo) || !find_u64(body, length, T_EVERYTHING, 0, &everything)) {
        out_error(process->id, EPROTO, "SIGNAL cannot be read");
    } else if (signo > 64) {
        out_error(process->id, EINVAL, "no such signal");
    } else if (process->state != RUNNING) {
        out_error(process->id, ESRCH, "the process has ended"); /* its number may be another's by now */
    } else if (everything) {
        session_kill(process, (int)signo);
    } else if (kill(-process->pid, (int)signo) < 0) {
        out_error(process->id, errno, strerror(errno));
    }
}

static void resize(const struct process *process, const uint8_t *body, size_t length) {
    uint64_t cols, rows;
    if (!find_u64(body, length, T_COLS, 80, &cols) || !find_u64(body, length, T_ROWS, 24, &rows))
        out_error(process->id, EPROTO, "RESIZE cannot be read");
    else if (!process->pty)
        out_error(process->id, ENOTTY, "the process has no terminal");
    else if (process->out >= 0)
        pty_resize(process->out, process, (uint16_t)cols, (uint16_t)rows);
}

static void begin_follow(uint32_t id, const uint8_t *body, size_t length) {
    uint64_t which, cursor, credit;
    if (!find_u64(body, length, T_PROCESS, 0, &which) || !find_u64(body, length, T_CURSOR, 0, &cursor) ||
        !find_u64(body, length, T_CREDIT, 0, &credit)) {
        out_error(id, EPROTO, "FOLLOW cannot be read");
        return;
    }
    struct process *process = which <= UINT32_MAX ? process_find((uint32_t)which) : NULL;
    if (!process)
        out_error(id, ESRCH, "no such process");
    else
        follow(id, process, cursor, credit);
}

static void credit(uint32_t id, const uint8_t *body, size_t length) {
    uint64_t total;
    if (!find_u64(body, length, T_TOTAL, 0, &total))
        out_error(id, EPROTO, "CREDIT cannot be read");
    else
        follow_credit(id, total);
}

static void quiesce(void) {
    out_quiet(true);
    out_urgent(M_QUIET, 0, NULL);
}

static void begin_shutdown(const uint8_t *body, size_t length) {
    uint64_t grace;
    if (!find_u64(body, length, T_GRACE_MS, 0, &grace))
        out_error(0, EPROTO, "SHUTDOWN cannot be read");
    else
        shutdown_begin(grace);
}

static void about_process(uint8_t type, uint8_t flags, uint32_t id, const uint8_t *body, size_t length) {
    struct process *process = process_find(id);
    if (type == M_STDIN) {
        stdin_data(process, id, body, length, flags & F_EOF);
        return;
    }
    if (!process) {
        out_error(id, ESRCH, "no such process");
        return;
    }
    if (type == M_SIGNAL)
        send_signal(process, body, length);
    else if (type == M_RESIZE)
        resize(process, body, length);
    else if (process->state != ENDED)
        out_error(id, EBUSY, "the process has not ended");
    else
        process_forget(process);
}

void request(uint8_t type, uint8_t flags, uint32_t id, const uint8_t *body, size_t length) {
    if (out_is_quiet() && type != M_ATTACH && type != M_GO && type != M_PING && type != M_QUIESCE) {
        out_error(id, EBUSY, "between QUIET and GO");
        return;
    }
    switch (type) {
    case M_ATTACH: attach(body, length); break;
    case M_SPAWN: spawn(id, body, length); break;
    case M_STDIN:
    case M_SIGNAL:
    case M_RESIZE:
    case M_FORGET: about_process(type, flags, id, body, length); break;
    case M_FOLLOW: begin_follow(id, body, length); break;
    case M_CREDIT: credit(id, body, length); break;
    case M_UNFOLLOW: unfollow(id); break;
    case M_LIST: process_list(); break;
    case M_QUIESCE: quiesce(); break;
    case M_GO: out_quiet(false); break;
    case M_PING: pong(id); break;
    case M_IDENTITY:
        relay_reset_all();
        identity(body, length);
        break;
    case M_LISTEN:
    case M_DIAL:
    case M_BYTES:
    case M_TAKEN:
    case M_HANGUP: relay_request(type, flags, id, body, length); break;
    case M_SHUTDOWN: begin_shutdown(body, length); break;
    default: out_error(id, ENOSYS, "unknown message"); break;
    }
}
